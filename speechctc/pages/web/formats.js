// Results as files: TextGrid, CSV and ELAN's .eaf, as `speechctc decode` writes them.

import { clipped } from "./rows.js";

const MIN_SECONDS = 0.002; // seconds that a phone without any gets: ELAN counts milliseconds

const rounded = (value) => Number(value.toFixed(4));

// Gives each segment a duration; one that is too short takes it from those after it, at the end from those before.
export function lasting(segments, least, end) {
  const shortest = Math.max(Math.min(least, end / Math.max(segments.length, 1)), 0);
  let until = 0;
  return segments.map((segment, k) => {
    const left = segments.length - k;
    const start = Math.max(Math.min(segment.start, end - left * shortest), until);
    until = Math.max(Math.min(segment.end, end - (left - 1) * shortest), start);
    if (until - start < shortest - 1e-9) until = Math.min(start + shortest, end);
    return { ...segment, start, end: until };
  });
}

// What was more probably said than a phone, and how probable that is; "" for none.
export function instead(goodness) {
  const [text, share] = goodness?.said[0] ?? ["", 0];
  return share > goodness?.probability ? `${text} ${share.toFixed(2)}` : "";
}

// The tiers of phones; of those that were placed, also of their `words`, of which segments have the numbers, and scores.
function tiersOf(segments, seconds, words = null) {
  const short = segments.some((each) => rounded(each.end) <= rounded(each.start));
  const whole = short ? lasting(segments, MIN_SECONDS, seconds) : segments;
  const tier = (label) => whole.map((each) => ({ start: rounded(each.start), end: Math.min(rounded(each.end), seconds), label: label(each) }));
  const tiers = { phones: tier((each) => each.phone), confidence: tier((each) => each.confidence.toFixed(2)) };
  const scored = whole.some((each) => each.goodness) && { score: tier(({ goodness }) => goodness?.score.toFixed(2) ?? ""), "said instead": tier(({ goodness }) => instead(goodness)) };
  const inWords = (words ?? []).map((label, number) => tiers.phones.filter((_, k) => whole[k].word === number).reduce((word, each) => ({ ...each, start: word?.start ?? each.start, label }), null));
  return { ...(words && { words: inWords }), ...tiers, ...scored };
}

// Intervals in order, with empty ones between them, from 0 s to the end.
function filled(intervals, seconds) {
  const rows = [];
  let at = 0;
  for (const each of intervals) {
    if (each.start > at) rows.push({ start: at, end: each.start, label: "" });
    rows.push(each);
    at = each.end;
  }
  if (at < seconds) rows.push({ start: at, end: seconds, label: "" });
  return rows;
}

// A TextGrid in Praat's long text format; it does not name the file.
export function textgrid(segments, seconds, _, words = null) {
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
  const tiers = Object.entries(tiersOf(segments, seconds, words));
  const parts = ['File type = "ooTextFile"\nObject class = "TextGrid"\n\n'];
  parts.push(`xmin = 0 \nxmax = ${seconds} \ntiers? <exists> \nsize = ${tiers.length} \nitem []: \n`);
  tiers.forEach(([name, intervals], k) => {
    const rows = filled(intervals, seconds);
    parts.push(`    item [${k + 1}]:\n        class = "IntervalTier" \n        name = ${quoted(name)} \n`);
    parts.push(`        xmin = 0 \n        xmax = ${seconds} \n        intervals: size = ${rows.length} \n`);
    rows.forEach(({ start, end, label }, row) => {
      parts.push(`        intervals [${row + 1}]:\n            xmin = ${start} \n            xmax = ${end} \n            text = ${quoted(label)} \n`);
    });
  });
  return parts.join("");
}

// Comma-separated values (RFC 4180).
export function csv(segments, seconds, file) {
  const field = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = segments.map(({ start, end, phone, confidence }) => [file, start.toFixed(4), end.toFixed(4), phone, confidence.toFixed(4)]);
  return [["file", "start", "end", "phone", "confidence"], ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

const TYPES = { "default-lt": 'TIME_ALIGNABLE="true"', attached: 'TIME_ALIGNABLE="false" CONSTRAINTS="Symbolic_Association"' };
const CONSTRAINTS = {
  Time_Subdivision: "Time subdivision of parent annotation's time interval, no time gaps allowed within this interval",
  Symbolic_Subdivision: "Symbolic subdivision of a parent annotation. Annotations refering to the same parent are ordered",
  Symbolic_Association: "1-1 association with a parent annotation",
  Included_In: "Time alignable annotations within the parent annotation's time interval, gaps are allowed",
};

// A file of ELAN, in milliseconds: confidences are children of the phones. It names the recording beside it.
export function eaf(segments, seconds, file, date = new Date()) {
  const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const ms = (value) => Math.round(1000 * value);
  const { phones, confidence } = tiersOf(segments, seconds);
  const kept = phones.map((each, k) => ({ ...each, share: confidence[k].label })).filter((each) => ms(each.end) > ms(each.start));
  const slots = kept.flatMap((each, k) => [[2 * k + 1, ms(each.start)], [2 * k + 2, ms(each.end)]]).sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  const value = (label) => `<ANNOTATION_VALUE>${escaped(label)}</ANNOTATION_VALUE>`;
  const url = encodeURIComponent(file);
  return `${[
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<ANNOTATION_DOCUMENT AUTHOR="speechctc" FORMAT="3.0" VERSION="3.0" DATE="${date.toISOString().slice(0, 19)}+00:00" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">`,
    '<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">',
    `<MEDIA_DESCRIPTOR MEDIA_URL="file:///${url}" MIME_TYPE="${mediaType(file)}" RELATIVE_MEDIA_URL="./${url}"/>`,
    `<PROPERTY NAME="lastUsedAnnotationId">${2 * kept.length}</PROPERTY>`,
    "</HEADER>",
    "<TIME_ORDER>",
    ...slots.map(([number, time]) => `<TIME_SLOT TIME_SLOT_ID="ts${number}" TIME_VALUE="${time}"/>`),
    "</TIME_ORDER>",
    '<TIER TIER_ID="phones" LINGUISTIC_TYPE_REF="default-lt">',
    ...kept.map(({ label }, k) => `<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a${k + 1}" TIME_SLOT_REF1="ts${2 * k + 1}" TIME_SLOT_REF2="ts${2 * k + 2}">${value(label)}</ALIGNABLE_ANNOTATION></ANNOTATION>`),
    "</TIER>",
    '<TIER TIER_ID="confidence" LINGUISTIC_TYPE_REF="attached" PARENT_REF="phones">',
    ...kept.map(({ share }, k) => `<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a${kept.length + k + 1}" ANNOTATION_REF="a${k + 1}">${value(share)}</REF_ANNOTATION></ANNOTATION>`),
    "</TIER>",
    ...Object.entries(TYPES).map(([name, values]) => `<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="${name}" ${values} GRAPHIC_REFERENCES="false"/>`),
    ...Object.entries(CONSTRAINTS).map(([name, words]) => `<CONSTRAINT STEREOTYPE="${name}" DESCRIPTION="${words}"/>`),
    "</ANNOTATION_DOCUMENT>",
  ].join("\n")}\n`;
}

function mediaType(file) {
  const types = { wav: "audio/x-wav", mp3: "audio/mpeg", flac: "audio/flac", ogg: "audio/ogg", opus: "audio/ogg", m4a: "audio/mp4", mp4: "video/mp4" };
  return types[file.split(".").pop().toLowerCase()] ?? "unknown";
}

// By the ending of the file: what its button says, its media type, and its text.
export const FORMATS = {
  ".TextGrid": { name: "TextGrid", type: "text/plain", text: textgrid },
  ".csv": { name: "CSV", type: "text/csv", text: csv },
  ".eaf": { name: "ELAN", type: "application/xml", text: eaf },
};

// The line of a phone for people: what it is, when, how sure, and what else it may be.
export function inWords({ phone, start, end, confidence, alternatives }) {
  const others = alternatives.map(([other, share]) => `${other} ${share.toFixed(2)}`).join(", ");
  const words = `${phone}, ${start.toFixed(2)} to ${end.toFixed(2)} s, confidence ${clipped(confidence, 0, 1).toFixed(2)}`;
  return others ? `${words}; or ${others}` : words;
}
