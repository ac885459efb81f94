/** What stands above a log: lanes, search, follow, copy, download. */

export function button(text: string, title: string, act: () => unknown): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = 'smc-tool';
  made.textContent = text;
  made.title = title;
  made.addEventListener('click', () => void act());
  return made;
}

/** A button with a sign for its text; what it does is its name, with its keys as its title. */
export function signButton(
  sign: string,
  name: string,
  keys: string,
  act: () => unknown
): HTMLButtonElement {
  const made = button(sign, `${name} (${keys})`, act);
  made.setAttribute('aria-label', name);
  return made;
}

/** A list to choose from; `act` is called with the key that was chosen. */
export function choice<T extends string>(
  name: string,
  options: [T, string][],
  chosen: T,
  act: (key: T) => unknown
): HTMLSelectElement {
  const made = document.createElement('select');
  made.className = 'smc-choice';
  made.setAttribute('aria-label', name);
  for (const [key, text] of options) {
    const option = made.appendChild(document.createElement('option'));
    [option.value, option.textContent, option.selected] = [key, text, key === chosen];
  }
  made.addEventListener('change', () => void act(made.value as T));
  return made;
}

/** The field to search with; `find` is called with its text, `step` to go on, `close` to leave. */
export class SearchBar {
  constructor(
    find: (text: string) => unknown,
    step: (by: 1 | -1) => unknown,
    close: () => unknown
  ) {
    const go = (by: 1 | -1) => {
      clearTimeout(this._timer); // it looks for the newest text itself
      return step(by);
    };
    this.node.className = 'smc-search';
    this.node.setAttribute('role', 'search');
    this.node.hidden = true;
    this.input.type = 'search';
    this.input.placeholder = 'Find in the whole log';
    this.input.setAttribute('aria-label', 'Find in the log');
    this.input.maxLength = 200;
    this._told.className = 'smc-quiet';
    this._told.setAttribute('role', 'status');
    this.node.append(
      this.input,
      signButton('↑', 'Previous', 'Shift+Enter', () => go(-1)),
      signButton('↓', 'Next', 'Enter', () => go(1)),
      this._told,
      signButton('✕', 'Close', 'Esc', close)
    );
    this.input.addEventListener('input', () => {
      clearTimeout(this._timer);
      this._timer = setTimeout(() => find(this.input.value), 200);
    });
    this.input.addEventListener('keydown', event => {
      if (event.key === 'Enter' && !event.isComposing) {
        event.preventDefault();
        void go(event.shiftKey ? -1 : 1);
      }
    });
  }

  readonly node = document.createElement('div');
  readonly input = document.createElement('input');

  set told(words: string) {
    this._told.textContent = words;
  }

  open(): void {
    this.node.hidden = false;
    this.input.focus();
    this.input.select();
  }

  private readonly _told = document.createElement('span');
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
