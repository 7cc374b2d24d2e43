import type { Case, CaseStep, CaseTool, ShownMessage } from './case-file.ts';
import { type Difference, differenceOf, valueText } from './differences.ts';
import type { Shown } from './shown-request.ts';

/** The requests of a case, whole: each keeps the beginning of the one before. Null: it cannot be told. */
export function requestsOf({ toolLists }: Case, steps: readonly CaseStep[]): (Shown | null)[] {
  let before: readonly ShownMessage[] = [];
  return steps.map(({ request }) => {
    if (request === null) return null;
    before = [...before.slice(0, request.keeps), ...request.adds];
    return { agent: '', sha256: request.sha256, tools: toolLists[request.tools] ?? [], messages: before };
  });
}

/** Compares requests one after another. A difference that stays in later requests is told once. */
export function createRequestComparison(): (step: number, recorded: Shown, now: Shown) => Difference[] {
  const reported = new Set<string>();
  const isNew = (...keys: readonly string[]): boolean => {
    const key = keys.join('\n');
    if (reported.has(key)) return false;
    reported.add(key);
    return true;
  };
  return (step, recorded, now) => [
    ...compareTools(step, recorded.tools, now.tools).filter(({ what, recorded: was, now: is }) => isNew(what, was, is)),
    ...compareMessages(step, recorded.messages, now.messages, isNew),
  ];
}

function compareTools(step: number, recorded: readonly CaseTool[], now: readonly CaseTool[]): Difference[] {
  const [before, after] = [recorded, now].map((tools) => new Map(tools.map((tool) => [tool.name, tool])));
  if (before === undefined || after === undefined) return [];
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names.flatMap((name) => {
    const [old, current] = [before.get(name), after.get(name)];
    if (old === undefined || current === undefined) {
      return [{ step, what: `tool ${name}`, recorded: isOffered(old), now: isOffered(current) }];
    }
    return [
      ...compareTexts(step, `tool ${name}, description`, old.description, current.description),
      ...compareTexts(step, `tool ${name}, schema`, valueText(old.inputSchema), valueText(current.inputSchema)),
    ];
  });
}

const isOffered = (tool: CaseTool | undefined): string => (tool === undefined ? 'not offered' : 'offered');

const compareTexts = (step: number, what: string, recorded: string, now: string): Difference[] =>
  recorded === now ? [] : [differenceOf(step, what, recorded, now)];

function compareMessages(
  step: number,
  recorded: readonly ShownMessage[],
  now: readonly ShownMessage[],
  isNew: (...keys: readonly string[]) => boolean,
): Difference[] {
  const [instructions, others] = split(recorded);
  const [currentInstructions, currentOthers] = split(now);
  const differences =
    instructions?.sha256 !== currentInstructions?.sha256 &&
    isNew('instructions', instructions?.sha256 ?? '', currentInstructions?.sha256 ?? '')
      ? [differenceOf(step, 'instructions', instructions?.text ?? '', currentInstructions?.text ?? '')]
      : [];
  if (others.length !== currentOthers.length && isNew('count', `${others.length - currentOthers.length}`)) {
    const [was, is] = [others, currentOthers].map(({ length }) => `${length} messages`);
    differences.push({ step, what: 'request', recorded: was ?? '', now: is ?? '' });
  }
  const length = Math.max(others.length, currentOthers.length);
  const at = Array.from({ length }, (_, index) => index).filter(
    (index) => others[index]?.sha256 !== currentOthers[index]?.sha256,
  );
  // With another number of messages all that follow are different: the first one says it.
  for (const index of others.length === currentOthers.length ? at : at.slice(0, 1)) {
    const [old, current] = [others[index], currentOthers[index]];
    if (!isNew('message', old?.sha256 ?? '', current?.sha256 ?? '')) continue;
    const what = `message ${index + 1} (${(current ?? old)?.role})`;
    differences.push(differenceOf(step, what, old?.text ?? '', current?.text ?? ''));
  }
  return differences;
}

function split(messages: readonly ShownMessage[]): [ShownMessage | undefined, readonly ShownMessage[]] {
  const [first, ...others] = messages;
  return first?.role === 'system' ? [first, others] : [undefined, messages];
}
