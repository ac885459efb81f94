/** What the reader has before their eyes: that says enough of how a job ends. */

/** Whether the job's card is seen, or it as a node of a flow. */
export function isSeen(id: string): boolean {
  if (document.visibilityState !== 'visible') {
    return false;
  }
  const cards = [...document.querySelectorAll<HTMLElement>('.submarine-Card')];
  const nodes = [...document.querySelectorAll<HTMLElement>('.submarine-Flow [data-job]')];
  return [...cards, ...nodes].some(one => {
    const { top, bottom, height } = one.getBoundingClientRect();
    const around = one
      .closest('.jp-NotebookPanel-notebook, .submarine-Flow')
      ?.getBoundingClientRect();
    const [above, below] = [around?.top ?? 0, around?.bottom ?? innerHeight];
    const of = one.dataset.submarineJob ?? one.dataset.job;
    return of === id && height > 0 && bottom > above && top < below;
  });
}
