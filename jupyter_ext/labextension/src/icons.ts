/** Icons that Jupyter has none of; drawn in its colours, so that they fit each theme. */

import { LabIcon } from '@jupyterlab/ui-components';

const svg = (paths: string) =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
     <g class="jp-icon3 jp-icon-selectable" fill="#616161">${paths}</g></svg>`;

export const jobsIcon = new LabIcon({
  name: 'submarine:jobs',
  svgstr: svg(
    '<path d="M11 3h5v2h-3v3h1.5a7.5 7.5 0 0 1 7.2 5.3l.3-.3v5l-.5-.4A7.5 7.5 0 0 1 14.500 22h-6' +
      'a6.500 7 0 0 1 0-14H11zm-3 10a2 2 0 1 0 .01 4A2 2 0 0 0 8 13zm6 0a2 2 0 1 0 .01 4A2 2 0 0 0 14 13z"/>'
  )
});

export const chartIcon = new LabIcon({
  name: 'submarine:chart',
  svgstr: svg(
    '<path d="M4 3v16h17v2H2V3zm3 12 4-5 3 3 5-7 1.600 1.200L14.200 16 11 12.900 8.500 16z"/>'
  )
});

export const clusterIcon = new LabIcon({
  name: 'submarine:cluster',
  svgstr: svg(
    '<path d="M3 4h18v5H3zm2 1.500v2h2v-2zm-2 5h18v5H3zm2 1.500v2h2v-2zm6 5h2v2h6v2H5v-2h6z"/>'
  )
});
