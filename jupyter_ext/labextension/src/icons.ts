/** Icons that Jupyter has none of; drawn in its colours, so that they fit each theme. */

import { LabIcon } from '@jupyterlab/ui-components';

const svg = (paths: string) =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
     <g class="jp-icon3 jp-icon-selectable" fill="#616161">${paths}</g></svg>`;

export const jobsIcon = new LabIcon({
  name: 'submarine:jobs',
  svgstr: svg(
    '<path fill-rule="evenodd" d="M9 10V7h2V3h4v2h-2v2h1v3h1a5 5 0 0 1 4.600 3L22 11v9l-2.400-2A5 5 0 0 1 15 20.500H7' +
      'a5 5.200 0 0 1 0-10.500zm-2 4a1.400 1.400 0 1 0 .01 0zm4.500 0a1.400 1.400 0 1 0 .01 0zm4.500 0a1.400 1.400 0 1 0 .01 0z"/>'
  )
});

export const chartIcon = new LabIcon({
  name: 'submarine:chart',
  svgstr: svg(
    '<path d="M4 3v16h17v2H2V3zm3 12 4-5 3 3 5-7 1.600 1.200L14.200 16 11 12.900 8.500 16z"/>'
  )
});

export const stacksIcon = new LabIcon({
  name: 'submarine:stacks',
  svgstr: svg('<path d="M3 4h4v16H3zm7 5h4v11h-4zm7-3h4v14h-4z"/>')
});

export const metricsIcon = new LabIcon({
  name: 'submarine:metrics',
  svgstr: svg('<path d="M2 13h4l3-9 5 15 3-8h5v2h-3.600L14.200 22.500 9 8l-1.600 7H2z"/>')
});

export const compareIcon = new LabIcon({
  name: 'submarine:compare',
  svgstr: svg(
    '<path d="M3 4h7v16H3zm2 2v12h3V6zm9-2h7v16h-7zm2 2v5h3V6zm0 7v5h3v-5z" fill-rule="evenodd"/>'
  )
});

export const clusterIcon = new LabIcon({
  name: 'submarine:cluster',
  svgstr: svg(
    '<path d="M3 4h18v5H3zm2 1.500v2h2v-2zm-2 5h18v5H3zm2 1.500v2h2v-2zm6 5h2v2h6v2H5v-2h6z"/>'
  )
});

export const runIcon = new LabIcon({
  name: 'submarine:run',
  svgstr: svg(
    '<path d="M3 4h11v5H3zm2 1.500v2h2v-2zm-2 5h9v5H3zm2 1.500v2h2v-2zm9-1.500 8 5.500-8 5.500z"/>'
  )
});

export const flowIcon = new LabIcon({
  name: 'submarine:flow',
  svgstr: svg(
    '<path d="M8 2h8v6h-3v3h6v5h2v6h-7v-6h3v-3H7v3h3v6H3v-6h2v-5h6V8H8zm2 2v2h4V4zM5 18v2h3v-2zm11 0v2h3v-2z" fill-rule="evenodd"/>'
  )
});

export const openIcon = new LabIcon({
  name: 'submarine:open',
  svgstr: svg(
    '<path d="M4 4h7v2H6v12h12v-5h2v7H4zm9 0h7v7h-2V7.400l-7.300 7.300-1.400-1.400L16.600 6H13z"/>'
  )
});
