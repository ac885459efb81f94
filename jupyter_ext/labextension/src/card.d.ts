/** The card's own scripts, which the live card of a kernel has too. */

declare module '*/card/words.js' {
  export function clock(seconds: number): string;
  export function duration(seconds: number): string;
  export function percent(fraction: number): string;
  export function size(bytes: number): string;
  export function seen(text: string, kept?: string): string;
}
