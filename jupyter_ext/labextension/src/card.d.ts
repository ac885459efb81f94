/** The card's own scripts, which the live card of a kernel has too. */

declare module '*/card/words.js' {
  export function clock(seconds: number): string;
  export function duration(seconds: number): string;
  export function percent(fraction: number): string;
  export function size(bytes: number): string;
  export function seen(text: string, kept?: string): string;
}

declare module '*/card/tree.js' {
  /** An element (its tag, its attributes, what is in it), or text. */
  export type Tree = string | [string, Record<string, string>, Tree[]];
  /** By `data-slot` or `data-action`: attributes (null takes one away), and `text` or `inside`. */
  export type Changes = Record<string, Record<string, string | null | Tree[]>>;
  export function build(tree: Tree): Node;
  export function patch(shown: Node, before: Tree, after: Tree): void;
  export function change(tree: Tree, changes: Changes): Tree;
  export function isTree(given: unknown): given is Tree;
  export function tick(root: Element, age: number): void;
}
