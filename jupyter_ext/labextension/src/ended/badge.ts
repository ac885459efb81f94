/** A sign in the title of a tab that nobody sees; it goes when somebody does. */

import { glyph } from '../words';

export class TitleBadge {
  constructor() {
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') {
        this._set('');
      }
    });
  }

  show(state: string, text: string): void {
    this._set(`${glyph(state)} ${text} · `);
  }

  private _set(prefix: string): void {
    const { title } = document;
    const plain = title.startsWith(this._prefix) ? title.slice(this._prefix.length) : title;
    this._prefix = prefix;
    document.title = prefix + plain;
  }

  private _prefix = '';
}
