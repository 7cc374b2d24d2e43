import {
  fileLines,
  type Hit,
  hitsOf,
  inputText,
  lastLines,
  listedEntries,
  type Observation,
  type TaskView,
} from './workspace-observations.ts';
import { counted, quote } from './workspace-words.ts';

export function reportText(view: TaskView): string {
  return [`# Report`, `Task: ${quote(view.task, 300)}`, ...findings(view), ...noteParts(view)]
    .join('\n\n')
    .concat('\n');
}

/** The closing answer: findings with the numbers, names and lines seen, and a part for each message sent in between. */
export function finalAnswer(view: TaskView): string {
  const facts = findings(view);
  const report = view.observations.findLast(({ purpose }) => purpose === 'report');
  return [
    `Here is what I found for “${quote(view.task)}”.`,
    ...(facts.length > 0 ? facts : ['None of my tools gave me anything to go on, so I cannot say more than that.']),
    ...noteParts(view),
    ...failures(view),
    ...(report !== undefined && !report.failed ? [`The report is in ${inputText(report, 'path')}.`] : []),
  ].join('\n\n');
}

function findings(view: TaskView): string[] {
  return [listing(view), search(view), ...readings(view), measurement(view)].filter((each) => each !== undefined);
}

function listing({ observations }: TaskView): string | undefined {
  const survey = observations.find(({ purpose, failed }) => purpose === 'survey' && !failed);
  if (survey === undefined) return undefined;
  const entries = listedEntries(observations);
  if (entries.length === 0) return 'The directory is empty.';
  const names = entries.slice(0, 8).map(({ path }) => path);
  const bytes = entries.reduce((sum, entry) => sum + (entry.bytes ?? 0), 0);
  const size = bytes > 0 ? ` (${bytes} bytes in its files)` : '';
  return `The top level has ${counted(entries.length, 'entry', 'entries')}${size}: ${names.join(', ')}${entries.length > names.length ? ', …' : ''}.`;
}

function search({ observations }: TaskView): string | undefined {
  const call = observations.findLast(({ purpose, failed }) => !failed && (purpose === 'search' || purpose === 'widen'));
  if (call === undefined) return undefined;
  return describeHits(inputText(call, 'pattern'), hitsOf([call], 'search', 'widen'));
}

function describeHits(pattern: string, hits: readonly Hit[]): string {
  if (hits.length === 0) return `“${pattern}” occurs nowhere.`;
  const files = new Set(hits.map(({ path }) => path));
  const excerpt = hits.slice(0, 3).map(({ path, line, text }) => `- ${path}:${line}: ${quote(text, 120)}`);
  return [
    `“${pattern}” occurs in ${counted(hits.length, 'line')} of ${counted(files.size, 'file')}, among them:`,
    ...excerpt,
  ].join('\n');
}

function readings({ observations }: TaskView): string[] {
  return observations
    .filter(({ purpose, failed }) => !failed && (purpose === 'read' || purpose === 'context'))
    .map((read) => {
      const lines = fileLines(read);
      const first = lines.find(({ text }) => text.trim() !== '');
      const opening = first === undefined ? 'it has no text' : `line ${first.no} says “${quote(first.text, 120)}”`;
      return `I read ${counted(lines.length, 'line')} of ${inputText(read, 'path')}; ${opening}.`;
    });
}

function measurement({ observations }: TaskView): string | undefined {
  const lines = lastLines(observations, 'measure');
  return lines.length === 0
    ? undefined
    : ['The command printed:', ...lines.map((line) => `    ${line.trim()}`)].join('\n');
}

function noteParts({ notes, observations }: TaskView): string[] {
  const calls = observations.filter(({ purpose }) => purpose === 'note');
  return notes.map((note, index) => `You also wrote: “${quote(note)}”. ${describeNote(calls[index])}`);
}

function describeNote(call: Observation | undefined): string {
  if (call === undefined) return 'I had no tool to look into it.';
  if (call.failed) return `Looking into it failed: ${quote(call.output)}.`;
  return describeHits(inputText(call, 'pattern') || inputText(call, 'command') || call.tool, hitsOf([call], 'note'));
}

function failures({ observations }: TaskView): string[] {
  return observations
    .filter(({ failed, purpose }) => failed && purpose !== 'note')
    .map(({ tool, output }) => `${tool} failed: ${output === '' ? 'no result' : quote(output)}`);
}
