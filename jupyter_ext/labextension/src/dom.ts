/** Elements whose text is text: nothing of a job becomes markup. */

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  style = '',
  attributes: Record<string, string> = {},
  text = ''
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (style) {
    node.className = style.trim();
  }
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  if (text) {
    node.textContent = text;
  }
  return node;
}

/** Change a text only where it differs, so that a screen reader hears only what is new. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

export function setAttribute(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}
