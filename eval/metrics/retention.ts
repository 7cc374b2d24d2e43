import type { Recording } from '../../simulator/recording.ts';
import { countText } from '../../simulator/tokens.ts';
import { sanitizeText } from '../../src/tools/sanitize-text.ts';
import type { StepCall } from './traced-call.ts';

/** Of a longer first message only the beginning must stay. */
const FIRST_MESSAGE_TOKENS = 2_000;
/** 2 000 tokens of ordinary text have at least this many characters, by any tokenizer. */
const FIRST_MESSAGE_CHARS = 5_000;

/**
 * The steps whose request lacked the user's first message (of a long one its beginning) or the latest one before that
 * step, each verbatim.
 */
export function stepsWithoutUser(recording: Recording, calls: readonly StepCall[]): number[] {
  const users = usersBefore(recording);
  const first = beginningOf(users[0]?.first ?? '');
  return calls
    .filter(({ step, request }) => {
      const latest = (users[step] ?? users.at(-1))?.latest ?? '';
      const said = request.messages.flatMap(({ role, text }) => (role === 'user' ? [text] : []));
      return ![first, latest].every((wanted) => said.some((text) => text.includes(wanted)));
    })
    .map(({ step }) => step);
}

/** The user's first and latest message at each step, and at the request after all steps. */
function usersBefore({ entries }: Recording): { first: string; latest: string }[] {
  const found: { first: string; latest: string }[] = [];
  let [first, latest]: (string | undefined)[] = [undefined, undefined];
  const note = (): void => void found.push({ first: first ?? '', latest: latest ?? '' });
  for (const entry of entries) {
    if (entry.type === 'step') {
      note();
      continue;
    }
    latest = sanitizeText(entry.text);
    first ??= latest;
  }
  note();
  return found;
}

const beginningOf = (text: string): string =>
  countText(text) <= FIRST_MESSAGE_TOKENS ? text : text.slice(0, FIRST_MESSAGE_CHARS);

const WRITING_TOOL = /(^|[_-])(edit|write|create|patch|replace|insert)/i;
const PATH_KEYS = ['path', 'file_path', 'filePath'];

/** The files that calls of an editing tool wrote to, in the order of their first edit. */
export function editedFiles(recording: Recording): string[] {
  const calls = recording.entries.flatMap((entry) => (entry.type === 'step' ? entry.toolCalls : []));
  const paths = calls.flatMap(({ name, input, isError }) => {
    // A combined editor tool has a `command`; `view` only reads.
    if (isError === true || !WRITING_TOOL.test(name) || input['command'] === 'view') return [];
    const path = PATH_KEYS.map((key) => input[key]).find((value) => typeof value === 'string');
    return typeof path === 'string' ? [path] : [];
  });
  return [...new Set(paths)];
}

/** The share of the files that the text names. 1: there are none. */
export function fileRecall(files: readonly string[], text: string): number {
  return shareOf(files, (file) => text.includes(file));
}

const ERROR_CHARS = 200;

/**
 * Share of the failed results in requests that show the beginning of their error; 1 without any. Calls whose id is not
 * unique are left out.
 */
export function errorResultsKept(recording: Recording, calls: readonly StepCall[]): number {
  const recorded = recording.entries.flatMap((entry) => (entry.type === 'step' ? entry.toolCalls : []));
  const uses = Map.groupBy(recorded, ({ id }) => id);
  const errors = new Map(
    recorded
      .filter(({ id, isError }) => isError === true && uses.get(id)?.length === 1)
      .map(({ id, output }) => [id, sanitizeText(output).slice(0, ERROR_CHARS)]),
  );
  const shown = calls.flatMap(({ request }) =>
    request.messages.flatMap(({ toolResults }) =>
      toolResults.flatMap(({ id, output }) => {
        const text = errors.get(id);
        // Some protocols have no failed results: the SDK then sends the text inside JSON.
        return text === undefined ? [] : [output.includes(text) || output.includes(JSON.stringify(text).slice(1, -1))];
      }),
    ),
  );
  return shareOf(shown, (isKept) => isKept);
}

function shareOf<T>(items: readonly T[], holds: (item: T) => boolean): number {
  return items.length === 0 ? 1 : items.filter(holds).length / items.length;
}
