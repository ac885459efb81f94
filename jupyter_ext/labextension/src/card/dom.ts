/**
 * A tree of elements, attributes and text, and the page brought up to it.
 *
 * Text is put in as text nodes alone, so that nothing which a job wrote becomes markup. Only what
 * differs is changed: what the reader opened, focused or is about to click stays as it is.
 */

export type Attributes = Record<string, string>;

export interface Element {
  tag: string;
  attributes: Attributes;
  children: Spec[];
}

/** An element or text; an empty text keeps the place of what is not there now. */
export type Spec = string | Element;

const DRAWING = new Set(['svg', 'polyline', 'circle']);
const STYLES: Record<string, 'flexGrow' | 'width'> = { grow: 'flexGrow', width: 'width' };

/** Make an element with the class `smc-STYLE`; `null` keeps a place. */
export function node(
  tag: string,
  style: string,
  attributes: Attributes,
  ...children: (Spec | null)[]
): Element {
  const all = style ? { class: `smc-${style}`, ...attributes } : attributes;
  return { tag, attributes: all, children: children.map(child => child ?? '') };
}

/** Return `url` where a link may lead there. */
export function webAddress(url: string): string {
  return /^https?:\/\//i.test(url) ? url : '';
}

export function build(spec: Spec): Node {
  if (typeof spec === 'string') {
    return document.createTextNode(spec);
  }
  const made = DRAWING.has(spec.tag)
    ? document.createElementNS('http://www.w3.org/2000/svg', spec.tag)
    : document.createElement(spec.tag);
  assign(made, {}, spec.attributes);
  made.append(...spec.children.map(build));
  return made;
}

/** Change `shown`, which was made of `before`, to what `after` says. */
export function patch(shown: Node, before: Spec, after: Spec): void {
  if (typeof before === 'string' && typeof after === 'string') {
    if (before !== after) {
      (shown as Text).data = after;
    }
  } else if (typeof before === 'string' || typeof after === 'string' || before.tag !== after.tag) {
    (shown as ChildNode).replaceWith(build(after));
  } else {
    assign(shown as HTMLElement, before.attributes, after.attributes);
    const [old, now] = [before.children, after.children];
    for (let at = old.length; at > now.length; at--) {
      shown.childNodes[at - 1].remove();
    }
    now.forEach((child, at) => {
      if (at < old.length) {
        patch(shown.childNodes[at], old[at], child);
      } else {
        shown.appendChild(build(child));
      }
    });
  }
}

function assign(shown: HTMLElement | SVGElement, before: Attributes, after: Attributes): void {
  for (const name of Object.keys(before)) {
    if (!(name in after)) {
      put(shown, name, null);
    }
  }
  for (const [name, value] of Object.entries(after)) {
    if (before[name] !== value) {
      put(shown, name, value);
    }
  }
}

function put(shown: HTMLElement | SVGElement, name: string, value: string | null): void {
  if (name in STYLES) {
    shown.style[STYLES[name]] = value ?? '';
  } else if (value === null || (name === 'href' && !webAddress(value))) {
    shown.removeAttribute(name);
  } else {
    shown.setAttribute(name, value);
  }
}
