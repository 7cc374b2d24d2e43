import type { Reply, ScriptedToolCall } from './reply.ts';
import type { SimulatedRequest } from './request.ts';
import { finalAnswer, reportText } from './workspace-answer.ts';
import {
  callId,
  fileLines,
  hitsOf,
  inputText,
  lastLines,
  listedEntries,
  type Purpose,
  REPORT_PATH,
  type TaskView,
  viewTask,
} from './workspace-observations.ts';
import { counted, fileNamesIn, quote, tellingWords } from './workspace-words.ts';

const GENERAL_PATTERN = 'TODO|FIXME|export';

type Move = Readonly<{ reasoning?: string; text: string; calls: readonly Call[] }>;
type Call = Readonly<{ purpose: Purpose; name: string; input: Record<string, unknown> }>;

type Situation = TaskView & Readonly<{ can: (tool: string) => boolean }>;

/**
 * The simulated model of an agent with the workspace tools, or without any of them. A pure function of the request:
 * each reply follows from the history, every fact was read from a tool result, and the next reply answers a message
 * that arrived during the work.
 */
export function workspaceScript(request: SimulatedRequest): Reply {
  const names = request.toolChoice === 'none' ? [] : request.tools.map(({ name }) => name);
  const situation = { ...viewTask(request.messages), can: (tool: string) => names.includes(tool) };
  const move = takeUpNotes(situation) ?? nextMove(situation);
  if (move === undefined) return { text: acknowledgement(situation) + finalAnswer(situation) };
  const toolCalls = move.calls.map(
    ({ purpose, name, input }, index): ScriptedToolCall => ({
      id: callId(purpose, request.messages.length, index),
      name,
      input,
    }),
  );
  return { reasoning: move.reasoning, text: move.text, toolCalls };
}

/** Starts with the user's new messages, if a tool can help. */
function takeUpNotes(situation: Situation): Move | undefined {
  const calls = situation.newNotes.flatMap((note) => noteCall(situation, note));
  if (calls.length === 0) return undefined;
  return {
    reasoning: 'The user has added something while I work. That comes first; then I go on where I was.',
    text: `${acknowledgement(situation)}I look into it right now and go on with the rest afterwards.`,
    calls,
  };
}

/** Quotes the user's messages since the last reply. */
function acknowledgement({ newNotes }: TaskView): string {
  if (newNotes.length === 0) return '';
  return `You just added: ${newNotes.map((note) => `“${quote(note)}”`).join(' and ')}. `;
}

function noteCall(situation: Situation, note: string): Call[] {
  const pattern = tellingWords(note, knownPaths(situation))[0] ?? GENERAL_PATTERN;
  if (situation.can('grep')) return [{ purpose: 'note', name: 'grep', input: { pattern } }];
  if (situation.can('bash')) {
    const command = `grep -rnEI --exclude-dir=.git --exclude-dir=node_modules -- ${shellQuote(pattern)} . | head -50`;
    return [{ purpose: 'note', name: 'bash', input: { command } }];
  }
  return situation.can('list_files') ? [{ purpose: 'note', name: 'list_files', input: {} }] : [];
}

/** The first step of the plan that is possible and not yet done. Undefined: only the answer is left. */
function nextMove(situation: Situation): Move | undefined {
  for (const plan of [planSurvey, planSearch, planWiden, planRead, planMeasure, planReport]) {
    const move = plan(situation);
    if (move !== undefined && move.calls.length > 0) {
      return { ...move, text: acknowledgement(situation) + move.text };
    }
  }
  return undefined;
}

function planSurvey(situation: Situation): Move | undefined {
  if (isDone(situation, 'survey') || !situation.can('list_files')) return undefined;
  return {
    reasoning: `The task is: “${quote(situation.task, 300)}”. I know nothing about the files yet. First I look at what is there, then I search and read what matters, and only then answer.`,
    text: `I will work on this step by step: “${quote(situation.task)}”. First I list the files. Then I search them, read the most relevant ones and write a short report.`,
    calls: [{ purpose: 'survey', name: 'list_files', input: {} }],
  };
}

function planSearch(situation: Situation): Move | undefined {
  if (isDone(situation, 'search') || isDone(situation, 'context')) return undefined;
  const calls: Call[] = [];
  const pattern = tellingWords(situation.task, knownPaths(situation))[0] ?? GENERAL_PATTERN;
  if (situation.can('grep')) calls.push({ purpose: 'search', name: 'grep', input: { pattern } });
  const path = contextFile(situation);
  if (path !== undefined && situation.can('read_file')) {
    calls.push({ purpose: 'context', name: 'read_file', input: { path, limit: 200 } });
  }
  const entries = listedEntries(situation.observations);
  const seen =
    entries.length > 0
      ? `I see ${counted(entries.length, 'entry', 'entries')} at the top, from ${entries[0]?.path}`
      : 'I have no list of files';
  return {
    reasoning: `“${pattern}” is the word that should lead me to the right place.`,
    text: `${seen}. I search for “${pattern}”${path === undefined ? '' : ` and read ${path} at the same time`}.`,
    calls,
  };
}

/** If the search for the special word finds nothing, a broader one still finds something to work on. */
function planWiden(situation: Situation): Move | undefined {
  const first = situation.observations.find(({ purpose }) => purpose === 'search');
  const isWide = first !== undefined && inputText(first, 'pattern') === GENERAL_PATTERN;
  if (first === undefined || first.failed || isWide || isDone(situation, 'widen') || !situation.can('grep'))
    return undefined;
  if (hitsOf(situation.observations, 'search').length > 0) return undefined;
  const [, ...others] = tellingWords(situation.task, knownPaths(situation)).slice(0, 5);
  const pattern = others.length > 0 ? others.flatMap(bothCases).join('|') : GENERAL_PATTERN;
  return {
    text: `“${inputText(first, 'pattern')}” is not in any file. I search more broadly for ${pattern}.`,
    calls: [{ purpose: 'widen', name: 'grep', input: { pattern } }],
  };
}

/** A word as written and in lower case, for case-sensitive searches. */
function bothCases(word: string): string[] {
  return [...new Set([word, word.toLowerCase()])];
}

function planRead(situation: Situation): Move | undefined {
  if (isDone(situation, 'read') || !situation.can('read_file')) return undefined;
  const hits = hitsOf(situation.observations, 'search', 'widen');
  const path = rankedPaths(situation).find((each) => !hasRead(situation, each));
  if (path === undefined) return undefined;
  const count = hits.filter((hit) => hit.path === path).length;
  const why = count > 0 ? `I found most in ${path}: ${count} of ${counted(hits.length, 'line')}` : `${path} comes next`;
  return {
    text: `${why}, so I read that file.`,
    calls: [{ purpose: 'read', name: 'read_file', input: { path } }],
  };
}

/** Words that ask for a command. Each command needs an approval, so a mere question runs none. */
const ASKS_FOR_COMMAND = /\b(run|execute|measure|bash)\b/i;

function planMeasure(situation: Situation): Move | undefined {
  if (isDone(situation, 'measure') || !situation.can('bash') || !ASKS_FOR_COMMAND.test(situation.task))
    return undefined;
  return /\btests?\b/i.test(situation.task) && knownPaths(situation).includes('package.json')
    ? runTests
    : measureFiles(situation);
}

/** Prints the passed and failed tests. */
const TEST_COMMAND = `node --test --test-reporter=tap 2>&1 | grep -E '^(not ok|ok|# (pass|fail)) '`;
const runTests: Move = {
  text: 'The project has tests of its own. I run them: what fails tells more than the code alone.',
  calls: [{ purpose: 'measure', name: 'bash', input: { command: TEST_COMMAND } }],
};

function measureFiles(situation: Situation): Move {
  const paths = rankedPaths(situation).slice(0, 5);
  const count = `find . -type f -not -path '*/.git/*' -not -path '*/node_modules/*' | wc -l`;
  const lines = paths.length > 0 ? `wc -l -- ${paths.map(shellQuote).join(' ')}; ` : '';
  const read = situation.observations.findLast(({ purpose }) => purpose === 'read' || purpose === 'context');
  const seen = read === undefined ? 0 : fileLines(read).length;
  return {
    text: `${read !== undefined && seen > 0 ? `I read ${counted(seen, 'line')} of ${inputText(read, 'path')}. ` : ''}Now I measure instead of guessing: the lines of the files that matter and the number of all files.`,
    calls: [{ purpose: 'measure', name: 'bash', input: { command: `${lines}echo "files: $(${count})"` } }],
  };
}

function planReport(situation: Situation): Move | undefined {
  if (isDone(situation, 'report') || !situation.can('write_file')) return undefined;
  const measured = lastLines(situation.observations, 'measure').at(-1);
  return {
    text: `${measured === undefined ? '' : `The measurement ends with “${quote(measured)}”. `}I write what I found to ${REPORT_PATH}.`,
    calls: [{ purpose: 'report', name: 'write_file', input: { path: REPORT_PATH, content: reportText(situation) } }],
  };
}

function isDone({ observations }: TaskView, purpose: Purpose): boolean {
  return observations.some((each) => each.purpose === purpose);
}

function hasRead({ observations }: TaskView, path: string): boolean {
  return observations.some((each) => each.tool === 'read_file' && inputText(each, 'path') === path);
}

function knownPaths({ observations }: TaskView): string[] {
  return listedEntries(observations).map(({ path }) => path);
}

const NOT_TEXT = /\.(png|jpe?g|gif|webp|ico|pdf|zip|gz|tgz|woff2?|ttf|lock|map|bin|so|node|db|sqlite)$|lock\.json$/i;

function readableFiles(situation: TaskView): string[] {
  const files = listedEntries(situation.observations).filter(({ path }) => !path.endsWith('/') && !NOT_TEXT.test(path));
  return files.map(({ path }) => path).filter((path) => path !== REPORT_PATH);
}

/** A file named in the task, else the README, else the manifest, else the first readable file. */
function contextFile(situation: TaskView): string | undefined {
  const files = readableFiles(situation);
  const named = fileNamesIn(situation.task);
  return (
    files.find((path) => named.includes(path)) ??
    named.find((path) => path.includes('/')) ??
    files.find((path) => /(^|\/)readme/i.test(path)) ??
    files.find((path) => path === 'package.json') ??
    files[0]
  );
}

/** Files by number of lines found in them, then the other files of the listing, largest first. */
function rankedPaths(situation: TaskView): string[] {
  const counts = new Map<string, number>();
  for (const { path } of hitsOf(situation.observations, 'search', 'widen')) {
    counts.set(path, (counts.get(path) ?? 0) + 1);
  }
  const found = [...counts].toSorted(([, left], [, right]) => right - left).map(([path]) => path);
  const sizes = new Map(listedEntries(situation.observations).map(({ path, bytes }) => [path, bytes ?? 0]));
  const others = readableFiles(situation).toSorted((left, right) => (sizes.get(right) ?? 0) - (sizes.get(left) ?? 0));
  return [...new Set([...found, ...others])];
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
