import type { StepRow } from '@baton-run/server/client';
import { cost, count, shortCount } from '../format.ts';
import { hasFailed } from './context-bins.ts';
import type { Row } from './step-rows.ts';

/** A row of the waterfall that a person may look for in a long run. */
export type Jump = Readonly<{ key: string; group: JumpGroup; words: string }>;

const GROUPS = [
  'Failures',
  'Taken again',
  'Calls that waited or were denied',
  'Calls that failed',
  'Compactions',
  'Switches and broken caches',
  'Dearest step',
  'Prunes',
] as const;
type JumpGroup = (typeof GROUPS)[number];

type StepOfList = Extract<Row, { kind: 'step' }>;
const isStep = (row: Row): row is StepOfList => row.kind === 'step';

/** The rows worth a look, by group, each group in the order of the run. */
export function jumpsOf(rows: readonly Row[]): ReadonlyMap<JumpGroup, readonly Jump[]> {
  const dearest = dearestOf(rows);
  const all = rows
    .flatMap((row): Jump[] => (row === dearest ? [dearestJump(dearest)] : []))
    .concat(rows.flatMap(jumpsOfRow));
  const grouped = Map.groupBy(all, ({ group }) => group);
  return new Map(
    GROUPS.flatMap((group) => {
      const found = grouped.get(group);
      return found === undefined ? [] : [[group, found] as const];
    }),
  );
}

/** Whether a row stays where only the unusual is shown. Rows that are still to be read stay, and are then judged. */
export const isUnusual = (row: Row): boolean =>
  row.kind === 'run' ||
  row.kind === 'missing' ||
  row.kind === 'child' ||
  jumpsOfRow(row).some(({ group }) => group !== 'Prunes');

function jumpsOfRow(row: Row): Jump[] {
  const { key } = row;
  switch (row.kind) {
    case 'step':
      return jumpsOfStep(key, row.of);
    case 'recovery':
      return [{ key, group: 'Taken again', words: `Step ${count(row.of.step)}: another worker ended it` }];
    case 'compaction': {
      const { round, tokensBefore, tokensAfter } = row.of;
      const words = `Compaction ${round}${tokensAfter === null ? '' : `: ${shortCount(tokensBefore)} → ${shortCount(tokensAfter)} tokens`}`;
      return hasFailed(row.of)
        ? [{ key, group: 'Failures', words: `Compaction ${round} failed` }]
        : [{ key, group: 'Compactions', words }];
    }
    case 'prune':
      return [{ key, group: 'Prunes', words: `${shortCount(row.of.savedTokens)} tokens saved` }];
    default:
      return [];
  }
}

function jumpsOfStep(key: string, of: StepRow): Jump[] {
  const words = (what: string): string => `Step ${count(of.step)}: ${what}`;
  const toolsIn = (...states: StepRow['tools'][number]['state'][]): string =>
    [...new Set(of.tools.filter(({ state }) => states.includes(state)).map(({ toolName }) => toolName))].join(', ');
  const waited = toolsIn('awaiting_approval', 'awaiting_output', 'unknown', 'denied');
  const failed = toolsIn('error');
  const jumps: Jump[] = [];
  if (of.state === 'failed' || of.state === 'cancelled')
    jumps.push({ key, group: 'Failures', words: words(of.error?.code.replaceAll('_', ' ') ?? of.state) });
  if (of.state === 'retried')
    jumps.push({
      key,
      group: 'Taken again',
      words: words(`${of.error?.code.replaceAll('_', ' ') ?? 'failed'}, tried again`),
    });
  if (of.state === 'superseded') jumps.push({ key, group: 'Taken again', words: words('its worker stopped') });
  if (waited !== '') jumps.push({ key, group: 'Calls that waited or were denied', words: words(waited) });
  if (failed !== '') jumps.push({ key, group: 'Calls that failed', words: words(failed) });
  if (of.cacheBreak === 'agent' || of.cacheBreak === 'tools' || of.cacheBreak === 'unexplained')
    jumps.push({ key, group: 'Switches and broken caches', words: words(BREAKS[of.cacheBreak]) });
  return jumps;
}

const BREAKS = { agent: 'other agent or model', tools: 'other tools', unexplained: 'the cache broke' } as const;

const weightOf = ({ of }: StepOfList): number => of.costUsd ?? 0;
const tokensOf = ({ of }: StepOfList): number => of.usage?.totalTokens ?? 0;

/** The step that cost most; by tokens where no price is known. Undefined: there is nothing to compare. */
function dearestOf(rows: readonly Row[]): StepOfList | undefined {
  const steps = rows.filter(isStep).filter(({ of }) => of.usage !== null);
  if (steps.length < 2) return undefined;
  const weigh = steps.some((row) => weightOf(row) > 0) ? weightOf : tokensOf;
  return steps.reduce((most, row) => (weigh(row) > weigh(most) ? row : most));
}

function dearestJump({ key, of }: StepOfList): Jump {
  const price = of.costUsd === null ? '' : `${cost(of.costUsd)}, `;
  return {
    key,
    group: 'Dearest step',
    words: `Step ${count(of.step)}: ${price}${shortCount(of.usage?.totalTokens ?? 0)} tokens`,
  };
}
