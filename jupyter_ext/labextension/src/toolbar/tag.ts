/** The tag that makes a cell a job; options follow a colon: `submarine:--gpus=2`. */

export const TAG = 'submarine';

/** A cell's tags, whatever its metadata holds. */
export function tagsOf(metadata: unknown): string[] {
  return Array.isArray(metadata) ? metadata.filter(each => typeof each === 'string') : [];
}

/** Whether a tag is ours; the same rule as `submarine_magics.tags`. */
export function isOurs(tag: string): boolean {
  return tag.split(':')[0].trim() === TAG;
}

export function isTagged(metadata: unknown): boolean {
  return tagsOf(metadata).some(isOurs);
}

/** The options that the tags give the job, as one reads them. */
export function optionsOf(metadata: unknown): string {
  return tagsOf(metadata)
    .filter(isOurs)
    .map(tag => tag.slice(tag.indexOf(':') + 1 || tag.length).trim())
    .filter(Boolean)
    .join(' ');
}

/**
 * The tags with ours added or taken away. `before` are those of ours that were taken away last:
 * switched off and on again, a cell has its options back.
 */
export function toggled(metadata: unknown, before: string[] = []): string[] {
  const tags = tagsOf(metadata);
  if (tags.some(isOurs)) {
    return tags.filter(tag => !isOurs(tag));
  }
  return [...tags, ...(before.length ? before : [TAG])];
}
