import { Token } from '@lumino/coreutils';

/** The commands that look after one job are there; in the order of buttons and menus. */
export interface IJobCommands {
  groups: string[][];
}

export const IJobCommands = new Token<IJobCommands>(
  '@submarine-notebook/labextension:IJobCommands',
  'The commands that look after one job, `{job}`.'
);
