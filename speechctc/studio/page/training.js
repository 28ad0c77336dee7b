// Training on corrections: the verdict, progress, the curve, facts.

import { post } from "./api.js";
import { on, part, write } from "./dom.js";
import { colours } from "./draw.js";
import { duration, plural } from "./list.js";

// What is said of a training that runs, by its state.
const SAYS = {
  preparing: "computing the features",
  training: "training",
  scoring: "scoring both models on what was held out",
};

const DUE = 5; // corrected recordings that no round has had
const LEAST = 2; // corrected recordings with which a training can begin
let due = false;
let asked = ""; // the answer to a press, until the server
let before = ""; // says something else than before

export function connect(tell, refresh) {
  on("training-form", "submit", async (event) => {
    event.preventDefault();
    say("Starting: writing down what was corrected");
    part("train").disabled = true;
    await tried(post("train", {}, { minutes: Number(part("minutes").value) }));
  });
  on("stop", "click", () => {
    say("Stopping after this step; the best model until now is scored");
    tried(post("stop"));
  });
  function say(text) {
    asked = text;
    write("training-state", text);
  }
  async function tried(work) {
    await work.catch(({ message }) => {
      say(message);
      tell(message);
    });
    refresh();
  }
}

// Whether enough was corrected since the last training for another.
export function isDue() {
  return due;
}

export function isRunning(training) {
  return training.state in SAYS;
}

export function update({ recordings, training, model }) {
  const corrected = recordings.filter((row) => row.state === "corrected");
  const running = isRunning(training);
  const used = new Set([...(training.train ?? []), ...(training.test ?? [])]);
  due = !running && corrected.filter((row) => !used.has(row.name)).length >= DUE;
  write("training-facts", facts(corrected));
  part("train").disabled = running || !model.folder || corrected.length < LEAST;
  part("stop").disabled = !running || training.state === "scoring";
  const { curve = [], epochs } = training;
  const last = curve[curve.length - 1];
  write("open-training", running ? `Training${last ? `: epoch ${last.epoch} of ${epochs}` : ""}, ${time(training.seconds)}` : "Train");
  part("open-training").classList.toggle("running", running);
  part("minutes").disabled = running;
  if (running) part("minutes").value = training.minutes;
  if (!training.state) return;
  const per = (value) => `PER on dev ${value.toFixed(1)} %`;
  const least = Math.min(...curve.map((entry) => entry.dev_per));
  const at = !last ? "" : running ? `, epoch ${last.epoch} of ${epochs}, ${per(last.dev_per)}` : `, lowest ${per(least)}`;
  const now = `Round ${training.round}: ${SAYS[training.state] ?? training.state}${at}. ${training.line ?? ""}`;
  if (now !== before) asked = "";
  before = now;
  write("training-state", asked || now);
  write("training-result", result(training));
  drawCurve(curve, training.start_per);
}

function time(seconds = 0) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

function facts(corrected) {
  const sum = (key) => corrected.reduce((total, row) => total + (row[key] ?? 0), 0);
  const whole = corrected.filter((row) => row.whole).length;
  if (corrected.length < LEAST) return `${plural(corrected.length, "corrected recording")}; a training needs ${LEAST}.`;
  return (
    `${plural(corrected.length, "corrected recording")}, ${duration(sum("seconds"))}; you checked ${sum("checked")} of their ${plural(sum("phones"), "phone")}. ` +
    "Where you worked, the other labels count as right, too. " +
    (corrected.length < DUE || !whole
      ? `The models are not compared: that needs ${DUE} corrected recordings (here ${corrected.length}), some of them checked as a whole (key W; here ${whole}).`
      : `Up to a fifth of the ${plural(whole, "recording")} that you checked as a whole is held out, to compare the models on.`)
  );
}

// The verdict, then what it rests on.
function result({ state, before, after, forgotten, test }) {
  if (state !== "done") return "";
  const words = [];
  if (before && after) {
    const kept = after.per > before.per;
    words.push(
      `${kept ? "The old model is kept" : "The new model is in use"}: PER ${after.per.toFixed(1)} % after, ${before.per.toFixed(1)} % before, on ${plural(after.recordings, "recording")} held out (${after.text}).`,
    );
    const { caution } = after;
    if (caution) words.push(`${caution[0].toUpperCase()}${caution.slice(1)}.`);
  } else {
    words.push("The new model is in use.", test?.length ? "" : "Nothing could be held out, so the gain is not measured.");
  }
  if (forgotten?.length) words.push(`No correction has these phones, so the new model does not know them: ${forgotten.join(" ")}.`);
  return words.join(" ");
}

function drawCurve(curve, before) {
  const canvas = part("curve");
  canvas.hidden = !curve.length;
  if (!curve.length) return;
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  const values = curve.map((entry) => entry.dev_per);
  const all = before === undefined ? values : [...values, before];
  const top = Math.max(...all) * 1.05 + 1;
  const bottom = Math.max(Math.min(...all) * 0.95 - 1, 0);
  const x = (k) => 48 + (k / Math.max(curve.length - 1, 1)) * (width - 60);
  const y = (value) => 10 + ((top - value) / (top - bottom)) * (height - 40);
  context.fillStyle = colours.soft;
  context.font = "12px system-ui, sans-serif";
  for (const value of [bottom, (bottom + top) / 2, top]) {
    context.fillText(`${value.toFixed(1)} %`, 4, y(value) + 4);
    context.fillRect(44, y(value), width - 56, 0.5);
  }
  context.fillText(`Wrong phones (PER) on dev, which chooses the epoch; epochs 1 to ${curve.length}`, 48, height - 8);
  context.lineWidth = 2;
  if (before !== undefined) {
    context.strokeStyle = colours.soft;
    context.setLineDash([6, 4]);
    stroke(context, [[48, y(before)], [width - 12, y(before)]]);
    context.setLineDash([]);
    context.fillText(`before: ${before.toFixed(1)} %`, width - 110, y(before) - 6);
  }
  context.strokeStyle = colours.accent;
  context.fillStyle = colours.accent;
  stroke(context, values.map((value, k) => [x(k), y(value)]));
  values.forEach((value, k) => context.fillRect(x(k) - 2, y(value) - 2, 4, 4));
  canvas.ariaLabel = `PER on dev after ${plural(curve.length, "epoch")}: ${values[values.length - 1].toFixed(1)} %`;
}

function stroke(context, points) {
  context.beginPath();
  points.forEach((point, k) => context[k ? "lineTo" : "moveTo"](...point));
  context.stroke();
}
