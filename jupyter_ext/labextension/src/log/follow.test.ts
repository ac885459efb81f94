// @vitest-environment jsdom
import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

import type { Api } from '../api';
import type { Feed } from '../feed';
import type { Card } from '../types';
import { followLogs } from './follow';
import { LogView } from './view';

vi.mock('@jupyterlab/apputils', () => ({})); // its dialogs need a whole page
vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it

/** Stands in for the page's stream. */
class Told {
  cards = new Map<string, Card>();
  known = true;
  why = '';
  watched = 0;
  cardChanged = new Signal<this, Card>(this);
  gone = new Signal<this, string>(this);
  troubled = new Signal<this, void>(this);
  isGone = () => !this.known;
  trouble = () => this.why;
  watch = () => {
    this.watched += 1;
    return { dispose: () => void (this.watched -= 1), isDisposed: false };
  };
}

function opened(feed: Told) {
  const view = new LogView({} as Api, 'j');
  const close = followLogs(feed as unknown as Feed, 'j', view);
  return { close, status: () => view.node.querySelector('.smc-status')!.textContent };
}

describe('followLogs', () => {
  it('says why there is no log, or no more of it', () => {
    const feed = new Told();
    const { close, status } = opened(feed);
    expect(status()).toBe('');
    feed.why = 'the Jupyter server does not answer';
    feed.troubled.emit();
    expect(status()).toBe('the Jupyter server does not answer');
    feed.cardChanged.emit({ job_id: 'j', logs: [] } as unknown as Card);
    expect(status()).toBe('the Jupyter server does not answer · Nothing written yet');
    feed.why = '';
    feed.troubled.emit();
    expect(status()).toBe('Nothing written yet');
    feed.known = false;
    feed.gone.emit('j');
    expect(status()).toBe('This server does not know the job · Nothing written yet');
    close();
    expect(feed.watched).toBe(0);
  });

  it('knows from the beginning what another view was told', () => {
    const feed = new Told();
    feed.known = false;
    expect(opened(feed).status()).toBe('This server does not know the job');
  });

  it('hears of its own job alone', () => {
    const feed = new Told();
    const view = { setLogs: vi.fn(), setTrouble: vi.fn() };
    followLogs(feed as unknown as Feed, 'j', view);
    feed.cardChanged.emit({ job_id: 'other', logs: [] } as unknown as Card);
    expect(view.setLogs).not.toHaveBeenCalled();
  });
});
