import { createHash } from 'node:crypto';
import type { RecordedStep, Recording } from '../../simulator/recording.ts';

const NEEDLE_CLASSES = ['constraint', 'decision', 'error', 'id'] as const;
type NeedleClass = (typeof NEEDLE_CLASSES)[number];

/** A text that occurs at only one place of a conversation and must not be lost. */
export type Needle = Readonly<{ class: NeedleClass; text: string }>;

const PER_CLASS = 3;

type Entry = Recording['entries'][number];

/**
 * Plants needles of each class at fixed places over the whole recording. A class without a place gets none.
 * - constraint: in a user's message
 * - decision: in an assistant's message
 * - error: in a failed tool result (if none failed, a successful call is made to fail)
 * - id: in a successful tool result
 */
export function plantNeedles(recording: Recording): { recording: Recording; needles: Needle[] } {
  const entries: Entry[] = [...recording.entries];
  const needles: Needle[] = [];
  const plant = (kind: NeedleClass, places: readonly Place[], words: (text: string) => string): void => {
    for (const [index, place] of spread(places, PER_CLASS).entries()) {
      const text = `${kind}-${index + 1}-${fingerprint(`${recording.header.name}/${kind}/${index}`)}`;
      const entry = entries[place.entry];
      if (entry === undefined) continue;
      entries[place.entry] = withText(entry, place.call, words(text), kind === 'error', index % 2 === 0);
      needles.push({ class: kind, text });
    }
  };
  const calls = callPlaces(entries);
  const failed = calls.filter(({ isError }) => isError);
  const succeeded = calls.filter(({ isError }) => !isError);
  plant('error', failed.length > 0 ? failed : succeeded.slice(0, PER_CLASS), (text) => `Error: it broke with ${text}.`);
  plant('id', succeeded.slice(failed.length > 0 ? 0 : PER_CLASS), (text) => `Reference: ${text}.`);
  plant('constraint', placesOf(entries, 'user'), (text) => `Whatever you do, never touch ${text}.`);
  plant('decision', placesOf(entries, 'step'), (text) => `I decide to go with ${text}.`);
  return { recording: { ...recording, entries }, needles };
}

type Place = Readonly<{ entry: number; call?: number }>;

function placesOf(entries: readonly Entry[], type: Entry['type']): Place[] {
  return entries.flatMap((entry, index) => (entry.type === type && entry.text !== '' ? [{ entry: index }] : []));
}

function callPlaces(entries: readonly Entry[]): (Place & { isError: boolean })[] {
  return entries.flatMap((entry, index) =>
    entry.type === 'user'
      ? []
      : entry.toolCalls.map(({ isError }, call) => ({ entry: index, call, isError: isError === true })),
  );
}

/** At most `count` items, spread over the whole list. */
function spread<T>(items: readonly T[], count: number): T[] {
  const wanted = Math.min(count, items.length);
  return Array.from(
    { length: wanted },
    (_, index) => items[Math.floor(((index + 0.5) * items.length) / wanted)],
  ).filter((item) => item !== undefined);
}

function withText(entry: Entry, call: number | undefined, words: string, fails: boolean, isFirst: boolean): Entry {
  const joined = (text: string): string => (isFirst ? `${words}\n${text}` : `${text}\n${words}`);
  if (entry.type === 'user' || call === undefined) return { ...entry, text: joined(entry.text) };
  const change = (each: RecordedStep['toolCalls'][number]) => ({
    ...each,
    output: joined(each.output),
    ...(fails && { isError: true }),
  });
  return { ...entry, toolCalls: entry.toolCalls.map((each, index) => (index === call ? change(each) : each)) };
}

const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 10);

export type NeedlePlaces = Readonly<{
  lastView: string;
  summaryInputs: readonly string[];
  /** Outputs that are still in the database and can be read by their reference. */
  storedOutputs: readonly string[];
}>;

/** The share of each class's needles that are in the view, were in a summarizer's input, or can be read again. */
export function keptNeedles(needles: readonly Needle[], places: NeedlePlaces): Partial<Record<NeedleClass, number>> {
  const everywhere = [places.lastView, ...places.summaryInputs, ...places.storedOutputs];
  return Object.fromEntries(
    NEEDLE_CLASSES.flatMap((kind) => {
      const ofClass = needles.filter((needle) => needle.class === kind);
      const kept = ofClass.filter(({ text }) => everywhere.some((place) => place.includes(text)));
      return ofClass.length === 0 ? [] : [[kind, kept.length / ofClass.length]];
    }),
  );
}
