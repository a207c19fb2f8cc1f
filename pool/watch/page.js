// Draws the contents of the page (pool/watch/contents.py), and asks for new ones if a server has sent the page. What
// comes from run folders gets into the page as text alone, never as markup.
"use strict";

const COLORS = ["#0969da", "#cf222e", "#1a7f37", "#8250df", "#bc4c00", "#0a7d8c", "#bf3989", "#6e7781", "#9a6700", "#24292f"];
const SHARES = {compute: "#2a4a6b", loader: "#e5a3a3", reduce: "#e08214", optimizer: "#c0392b", machines: "#7b5aa6", weights: "#c4ccd4"};
const POLL_MS = 2000;
const hidden = new Set();  // names of runs that are not drawn
const charts = new Map();  // title -> {signature, plot}
let newest = "";  // contents, as the server has sent them
let contents = JSON.parse(document.getElementById("contents").textContent);

function element(tag, text = "", classes = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = classes;
  return made;
}

function digits(value) {
  if (value === null || value === undefined) return "";
  return Math.abs(value) >= 1e5 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(6)));
}

function moment(seconds) {
  return seconds === null ? "" : new Date(seconds * 1000).toLocaleString("sv");
}

function duration(seconds) {
  if (seconds === null) return "";
  const pad = number => String(number).padStart(2, "0");
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 3600)}:${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
}

function colorOf(index) {
  return COLORS[index % COLORS.length];
}

function table(place, headings, rows) {
  const head = element("tr");
  for (const [text, kind] of headings) head.append(element("th", text, kind));
  place.replaceChildren(head);
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((cell, column) => row.append(cell instanceof Node ? cell : element("td", cell, headings[column][1])));
    place.append(row);
  }
}

function nameCell(run, index) {
  const cell = element("td", "", "text");
  const label = element("label");
  const box = element("input");
  box.type = "checkbox";
  box.checked = !hidden.has(run.run);
  box.addEventListener("change", () => {
    hidden[box.checked ? "delete" : "add"](run.run);
    draw();
  });
  const swatch = element("span", "", "swatch");
  swatch.style.background = colorOf(index);
  label.append(box, swatch, run.run);
  cell.append(label);
  return cell;
}

function drawRuns() {
  const headings = ["run", "state", "step", "loss", "validation", "best", "learning rate", "samples/s", "ETA", "restarts"];
  const rows = contents.runs.map((run, index) => [
    nameCell(run, index),
    element("td", run.state ?? "", `text ${run.state}`),
    `${run.step}/${run.steps}`,
    digits(run.last_loss),
    run.validation_loss === null ? "" : `${digits(run.validation_loss)} of step ${run.validation_step}`,
    run.best_checkpoint_value === null ? ""
      : `${run.best_metric} ${digits(run.best_checkpoint_value)} of step ${run.best_checkpoint_step}`,
    digits(run.learning_rate),
    Math.round(run.samples_per_second).toLocaleString("en"),
    duration(run.eta_seconds),
    String(run.restarts),
    ...run.settings,
  ]);
  const kind = name => [name, name === "run" || name === "state" ? "text" : ""];
  table(document.getElementById("runs"), [...headings, ...contents.keys].map(kind), rows);
  document.getElementById("notes").replaceChildren(...contents.notes.map(line => element("li", line)));
}

// --- charts ---

// The points of one number of a run, by the axis that is chosen.
function points(columns, name) {
  const byTime = document.getElementById("axis").value === "time";
  const found = [];
  const begin = columns.begin;
  (columns[name] ?? []).forEach((value, at) => {
    const x = byTime ? (columns.time[at] - begin) / 3600 : columns.step[at];
    if (Number.isFinite(x)) found.push([x, value]);
  });
  found.sort((one, other) => one[0] - other[0]);
  return [found.map(point => point[0]), found.map(point => point[1])];
}

function series(columns, name, label, color, style = {}) {
  return {points: points(columns, name), options: {label, stroke: color, width: 1.5, points: {show: false}, ...style}};
}

function marked(color) {
  return {points: {show: true, size: 6, fill: color}};
}

function faint(color) {
  return {stroke: `${color}55`, width: 1, class: "member"};
}

// The range of a logarithmic axis, which uPlot would draw with any number of lines.
function decades(_, least, most) {
  return most > 0 ? uPlot.rangeLog(Math.max(least, most / 1e12), most, 10, true) : [0.1, 1];
}

// Pixels that a label of an axis takes at most, in uPlot's font.
function labelWidth(text) {
  return 7 * text.length;
}

// The size of an axis that stands upright: its longest label fits.
function sizeOfLabels(self, labels) {
  return 20 + Math.max(50, ...(labels ?? []).map(labelWidth));
}

// Draws curves into a chart of their own, which keeps its zoom while the same curves grow.
function chart(place, title, curves, {logarithmic = false, bands = [], range} = {}) {
  const drawn = curves.filter(curve => curve.points[0].length);
  if (!drawn.length) return;
  const shown = value => logarithmic && value <= 0 ? null : value;
  const data = uPlot.join(drawn.map(({points: [xs, ys]}) => [xs, ys.map(shown)]));
  const axis = document.getElementById("axis").value;
  const signature = JSON.stringify([drawn.map(curve => curve.options), logarithmic, axis]);
  let known = charts.get(title);
  if (known?.signature !== signature) {
    known?.plot.destroy();
    const box = element("div", "", "chart");
    place.append(box);
    const scale = logarithmic ? {distr: 3, range: decades} : range ? {range} : {};
    const plot = new uPlot({
      title, bands, width: box.clientWidth - 14, height: 240,
      cursor: {sync: {key: "x"}},
      scales: {x: {time: false}, y: scale},
      padding: [null, labelWidth("1,000,000") / 2, null, null],
      axes: [
        {space: (self, at, least, most) => labelWidth(Math.round(most).toLocaleString()) + 16},
        {size: sizeOfLabels, values: (_, ticks) => ticks.map(tick => tick === null ? "" : digits(tick))},
      ],
      series: [{label: axis === "time" ? "hour" : "step", value: (_, x) => digits(x)}, ...drawn.map(curve => ({value: (_, y) => digits(y), ...curve.options}))],
    }, data, box);
    known = {signature, plot, box, whole: true};
    const over = plot.root.querySelector(".u-over");
    over.addEventListener("mouseup", () => { known.whole = plot.select.width === 0 && known.whole; });
    over.addEventListener("dblclick", () => { known.whole = true; });
    charts.set(title, known);
  } else {
    place.append(known.box);
    known.plot.setData(data, known.whole);
  }
  known.seen = true;
}

function namesOf(columns) {
  return Object.keys(columns).filter(name => !["step", "time", "begin"].includes(name));
}

function memberOf(name) {
  return /^member\.\d+\.(.*)$/.exec(name)?.[1];
}

// The number with this name of each run, and beside it those of its members.
function curvesOf(runs, kind, wanted, style) {
  return runs.flatMap(({run, color}) => {
    const columns = run.curves[kind];
    const names = namesOf(columns);
    return [
      ...names.filter(name => memberOf(name) === wanted).map(name => series(columns, name, name, color, faint(color))),
      ...names.filter(name => name === wanted).map(name => series(columns, name, run.run, color, style(color))),
    ];
  });
}

function drawCharts(runs) {
  const place = document.getElementById("charts");
  const logarithmic = document.getElementById("log").checked;
  place.replaceChildren();
  const plain = () => ({});
  chart(place, "training loss", curvesOf(runs, "steps", "loss", plain), {logarithmic});
  chart(place, "validation loss", curvesOf(runs, "validations", "validation_loss", marked), {logarithmic});
  const others = kind => new Set(runs.flatMap(({run}) => namesOf(run.curves[kind])).filter(name => !memberOf(name)));
  for (const name of others("validations")) {
    if (name !== "validation_loss") {
      chart(place, `validation: ${name.replace("validation_", "")}`, curvesOf(runs, "validations", name, marked));
    }
  }
  for (const name of others("nets")) {
    chart(place, `networks: ${name.replace("net_", "")}`, curvesOf(runs, "nets", name, marked));
  }
  chart(place, "learning rate", curvesOf(runs, "steps", "learning_rate", plain));
  chart(place, "samples/s", curvesOf(runs, "steps", "samples_per_second", plain));
  chart(place, "batches ready in the ring", curvesOf(runs, "steps", "batches_ready", plain));
}

// What the time of a run's workers goes into, one share upon the other.
function drawShares(place, run) {
  const columns = {...run.curves.steps};
  const names = Object.keys(SHARES).filter(name => columns[name]);
  const upTo = new Array(columns.step?.length ?? 0).fill(0);
  const curves = names.map(name => {
    columns[name].forEach((share, at) => { upTo[at] += share ?? 0; });
    columns[name] = [...upTo];
    return series(columns, name, name, SHARES[name], {fill: SHARES[name], value: () => ""});
  }).reverse();
  const bands = curves.slice(1).map((_, at) => ({series: [at + 1, at + 2]}));
  chart(place, `${run.run}: what bounds it`, curves, {bands, range: [0, 1]});
}

// --- one run ---

function track(name) {
  const lane = element("div", "", "lane");
  const bar = element("div", "", "track");
  lane.append(element("span", name), bar);
  return [lane, bar];
}

function piece(bar, left, width, classes, title) {
  const made = element("i", "", classes);
  made.style.left = `${100 * left}%`;
  if (width !== null) made.style.width = `${100 * width}%`;
  made.title = title;
  bar.append(made);
}

function drawLanes(place, run) {
  if (!run.lanes.length) return;
  const begin = Math.min(run.started, ...run.lanes.map(lane => lane.changes[0][0]));
  const end = run.ended ?? run.last_step_time ?? begin;
  const length = Math.max(end - begin, 1e-3);
  place.append(element("h3", `processes, ${moment(begin)} to ${moment(end)}`));
  for (const {process, changes} of run.lanes) {
    const [lane, bar] = track(process);
    changes.forEach(([time, stage, why], at) => {
      const until = changes[at + 1]?.[0] ?? end;
      if (stage !== "Dead" || changes[at + 1]) {
        piece(bar, (time - begin) / length, Math.max(until - time, 0) / length, stage, `${moment(time)} ${stage}: ${why}`);
      }
    });
    place.append(lane);
  }
}

function drawDeaths(place, run) {
  if (!run.deaths.length) return;
  place.append(element("h3", "deaths"));
  const rows = run.deaths.map(death => [moment(death.time), death.process, death.why, death.then]);
  const made = element("table", "", "deaths");
  table(made, [["time", "text"], ["process", "text"], ["why", "said"], ["then", "said"]], rows);
  place.append(made);
}

function drawCheckpoints(place, run) {
  const {steps, newest, best} = run.checkpoints;
  if (!steps.length) return;
  const said = [`${steps.length} kept`, `newest: step ${newest}`, ...(best < 0 ? [] : [`best: step ${best}`])];
  place.append(element("h3", `checkpoints: ${said.join(", ")}`));
  const [lane, bar] = track("by step");
  const length = Math.max(run.steps, ...steps);
  for (const step of steps) {
    const kind = step === best ? "best" : step === newest ? "newest" : "";
    piece(bar, step / length, null, `tick ${kind}`, `step ${step} ${kind}`);
  }
  place.append(lane);
}

function drawMembers(place, run) {
  if (!run.members.length) return;
  place.append(element("h3", "members"));
  const made = element("table", "", "members");
  const headings = ["member", ...run.keys_of_members, "best validation", "of step", "loss"].map(name => [name, ""]);
  const rows = run.members.map(member => [
    String(member.member), ...member.settings, digits(member.best_validation_loss),
    String(member.best_validation_step ?? ""), digits(member.last_loss),
  ]);
  table(made, headings, rows);
  place.append(made);
}

function drawDetails(runs) {
  const place = document.getElementById("details");
  place.replaceChildren();
  for (const {run, color} of runs) {
    const title = element("h2");
    const swatch = element("span", "", "swatch");
    swatch.style.background = color;
    title.append(swatch, run.run);
    const row = element("div", "", "row");
    const facts = element("section");
    place.append(title, row);
    drawShares(row, run);
    row.append(facts);
    const ended = run.exit_code === null ? "" : `, exit code ${run.exit_code}`;
    facts.append(element("div", `${run.state ?? "state unknown"}${ended}; last step ${moment(run.last_step_time)}`));
    if (run.reason) facts.append(element("div", run.reason, "said crashed"));
    if (run.network) {
      facts.append(element("div", `network of the stage: ${run.network.name}${run.network.tested ? ", tested" : ""}`));
    }
    drawCheckpoints(facts, run);
    drawLanes(facts, run);
    drawDeaths(facts, run);
    drawMembers(place, run);
  }
}

function draw() {
  for (const run of contents.runs) {
    const begin = run.curves.steps.time?.[0];
    for (const columns of Object.values(run.curves)) columns.begin = begin ?? columns.time?.[0];
  }
  for (const known of charts.values()) known.seen = false;
  const runs = contents.runs.map((run, index) => ({run, color: colorOf(index)})).filter(({run}) => !hidden.has(run.run));
  drawRuns();
  drawCharts(runs);
  drawDetails(runs);
  for (const [title, known] of charts) {
    if (!known.seen) {
      known.plot.destroy();
      known.box.remove();
      charts.delete(title);
    }
  }
}

// --- news ---

function say(text) {
  document.getElementById("news").textContent = text;
}

async function poll() {
  try {
    const answer = await fetch("contents.json", {cache: "no-cache"});
    if (!answer.ok) throw new Error(await answer.text());
    const news = await answer.text();
    if (news !== newest) {
      newest = news;
      contents = JSON.parse(news);
      draw();
    }
    say(`read ${moment(Date.now() / 1000)}`);
  } catch (error) {
    say(`no news: ${error.message}`);
  }
  setTimeout(poll, POLL_MS);
}

document.getElementById("axis").addEventListener("change", draw);
document.getElementById("log").addEventListener("change", draw);
draw();
if (contents.live) setTimeout(poll, POLL_MS);
