// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

import { ApiError } from '../api';
import type { FormField } from '../types';
import { blame, StartForm } from './form';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it

const field = (key: string, more = {}): FormField => ({
  ...{ key, value: '', help: `The \`${key}\`.`, standard: '', choices: [], more: false },
  ...more
});
const FIELDS = [
  field('cluster', { choices: ['local', 'yarn'], standard: 'yarn' }),
  field('gpus'),
  field('dir'),
  field('time_limit', { more: true })
];

it('says what is wrong in the words of the dialog, at its field', () => {
  const refused = new ApiError("--gpus: 'many' is not possible", 'notebook start', 'give a number');
  expect(blame(refused, FIELDS)).toEqual({
    key: 'gpus',
    words: "GPUs: 'many' is not possible. Give a number."
  });
  const folder = new ApiError('hdfs://x is no folder', '--dir', 'without --dir files come home');
  expect(blame(folder, FIELDS)).toEqual({
    key: 'dir',
    words: 'Folder: hdfs://x is no folder. Without Folder files come home.'
  });
  expect(blame(new ApiError('--port: no', 'notebook start'), FIELDS).key).toBe('');
  expect(blame(new ApiError('no GPU'), FIELDS)).toEqual({ key: '', words: 'No GPU' });
  expect(blame(new Error('gone'), FIELDS)).toEqual({ key: '', words: 'gone' });
});

it('marks the field for readers of screens, and unfolds it', () => {
  const words = "Time limit: 'x' is not a length of time.";
  const { node } = new StartForm(FIELDS, null, { time_limit: 'x' }, { key: 'time_limit', words });
  const wrong = node.querySelector('[aria-invalid]')!;
  expect(wrong.getAttribute('name')).toBe('time_limit');
  const about = wrong.getAttribute('aria-describedby')!.split(' ');
  const told = about.map(id => node.querySelector(`[id='${id}']`)!.textContent);
  expect(told).toEqual(['The time_limit.', words]);
  expect(node.querySelector('details')!.open).toBe(true);
  expect(node.querySelector('option')!.textContent).toBe('as configured (yarn)');
});
