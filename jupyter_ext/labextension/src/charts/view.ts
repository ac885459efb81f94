/** What a job uses and reports: charts by task over time, and the log at the cursor's moment. */

import { Widget } from '@lumino/widgets';

import type { Api } from '../api';
import { element, setText } from '../dom';
import type { JobMetrics } from '../types';
import { count, problem } from '../words';
import { Charts } from './charts';
import { drawings } from './model';
import { LogMoment } from './moment';
import { Poll } from './poll';

export class MetricsView extends Widget {
  constructor(
    private readonly _api: Api,
    private readonly _job: string
  ) {
    super();
    this.addClass('submarine-Metrics');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Metrics');
    this._moment = new LogMoment(_api, _job);
    this._error.hidden = true;
    this._all.hidden = true;
    this._all.addEventListener('click', () => this._charts.zoom(null));
    const head = element('div', 'submarine-Metrics-head');
    head.append(this._note, this._all);
    const body = element('div', 'submarine-Metrics-body');
    body.append(head, this._error, this._charts.node);
    this.node.append(body, this._moment.node);
    this._charts.moved.connect((_, at) => this._moment.at(at));
    this._charts.zoomed.connect((_, window) => {
      this._all.hidden = window === null;
      void this._poll.now();
    });
  }

  /** Ask for what there is; goes on while the job runs and somebody looks. */
  ask(): Promise<void> {
    return this._poll.now();
  }

  override dispose(): void {
    this._poll.dispose();
    this._charts.dispose();
    this._moment.dispose();
    super.dispose();
  }

  private async _ask(): Promise<boolean> {
    const [from, to] = this._charts.window ?? [null, null];
    try {
      const told = await this._api.metrics(this._job, from, to);
      if (!this.isDisposed) {
        this._show(told);
      }
      return !told.final;
    } catch (error) {
      setText(this._error, `No metrics: ${problem(error)}`);
      this._error.hidden = false;
      return true;
    }
  }

  private _show(told: JobMetrics): void {
    this._error.hidden = true;
    const shown = drawings([{ name: told.name, told }], false);
    this._charts.update(shown);
    this._moment.offer(tasksOf(told));
    const some = told.shown < told.tasks;
    const of = some ? `The first ${told.shown} of ${count(told.tasks, 'task')}. ` : '';
    const none = told.final ? 'Nothing was measured.' : 'Nothing is measured yet.';
    const part = this._charts.window ? '' : 'Drag in a chart to see a part of the time.';
    setText(this._note, shown.length ? of + part : none);
  }

  private readonly _charts = new Charts(false);
  private readonly _moment: LogMoment;
  private readonly _poll = new Poll(
    () => this._ask(),
    () => this.isVisible && document.visibilityState === 'visible'
  );
  private readonly _note = element('span', 'submarine-Quiet', { role: 'status' });
  private readonly _all = element('button', 'jp-mod-styled', { type: 'button' }, 'Show all');
  private readonly _error = element('div', 'submarine-Trouble', { role: 'alert' });
}

function tasksOf(told: JobMetrics): string[] {
  const lines = told.charts.flatMap(each => each.lines);
  return [...new Set(lines.map(each => each.task))];
}
