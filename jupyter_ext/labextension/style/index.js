import './base.css';
import './panel.css';
import './usage.css';
import '../../../magics/submarine_magics/card/card.css'; // one look, whoever draws the card
import './card.css';
import './flow.css';
import './start.css';
import './stacks.css';
import './log.css';
import 'uplot/dist/uPlot.min.css';
import './charts.css';
