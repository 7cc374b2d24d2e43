import type { HeldClaim } from '../claims/claim-keeper.ts';
import { BatonError } from '../domain/errors.ts';
import { withPlainNumbers } from '../domain/exact-json.ts';
import { parseId } from '../domain/ids.ts';
import { type ChildCall, childInputSchema } from '../domain/run/child.ts';
import { type InterruptedStep, planAsks, planStarts, type ToolTraits } from '../domain/run/settlement.ts';
import type { CallRequiringAction } from '../domain/transcript/required-action.ts';
import { APPROVAL_CHECK_TIMEOUT_MS } from '../domain/tunables.ts';
import { derivedId } from '../platform/derived-id.ts';
import { isServerTool, type Tool } from '../tools/tool.ts';
import { isOpenCall } from './endings/partial-answer.ts';

export type ToolsByName = ReadonlyMap<string, Tool>;
type Response = Pick<InterruptedStep, 'finishReason' | 'parts'>;

/** Indices of the calls that need an approval. Null: at least one tool decides by a function, which may take long. */
export function knownApprovals(tools: ToolsByName, { parts }: Pick<Response, 'parts'>): ReadonlySet<number> | null {
  const needed = parts.map((part) => (isOpenCall(part) ? tools.get(part.toolName)?.needsApproval : false));
  if (needed.some((needs) => typeof needs === 'function')) return null;
  return new Set(needed.flatMap((needs, index) => (needs === true ? [index] : [])));
}

/** The calls that require an action before or instead of running. */
export function findRequiredActions(
  tools: ToolsByName,
  response: Response,
  toApprove: ReadonlySet<number>,
): CallRequiringAction[] {
  return planAsks(response, traitsOf(tools), toApprove);
}

/** The children of the calls, with ids that are made of their keys: to begin one twice is to begin it once. */
export function childrenOf(
  tools: ToolsByName,
  messageId: string,
  calls: readonly CallRequiringAction[],
): ReadonlyMap<number, ChildCall> {
  return new Map(
    calls.flatMap(({ index, part, kind }): [number, ChildCall][] => {
      const child = kind === 'child' ? tools.get(part.toolName)?.child : undefined;
      if (child === undefined) return [];
      const idOf = (what: string): string => derivedId('child', messageId, String(index), what);
      return [
        [
          index,
          {
            ...child,
            toolName: part.toolName,
            sessionId: resumedSession(part.input) ?? idOf('session'),
            runId: idOf('run'),
          },
        ],
      ];
    }),
  );
}

function resumedSession(input: unknown): string | null {
  const { data } = childInputSchema.safeParse(input);
  return data?.session === undefined ? null : parseId('session', data.session);
}

/** Indices of the calls that are `running` with their response. A read-only call is marked by its outcome alone. */
export function findStarts(
  tools: ToolsByName,
  response: Response,
  toApprove: ReadonlySet<number>,
  lanes: number,
): ReadonlySet<number> {
  const isMarked = (index: number): boolean => {
    const part = response.parts[index];
    const tool = part?.type === 'tool' ? tools.get(part.toolName) : undefined;
    return isServerTool(tool) && tool.readOnly !== true;
  };
  return new Set(planStarts(response, traitsOf(tools), toApprove, lanes).filter(isMarked));
}

export function traitsOf(tools: ToolsByName): ToolTraits {
  return (name) => {
    const tool = tools.get(name);
    return {
      idempotent: tool?.idempotent === true || tool?.readOnly === true,
      resumes: tool?.resumes !== undefined,
      isClientSide: tool !== undefined && !isServerTool(tool),
      isChild: tool?.child !== undefined,
      asksWhenUnknown: tool?.onUnknown === 'ask',
    };
  };
}

/**
 * Indices of the pending calls that need an approval.
 * @throws BatonError `fenced` if the step is handed back meanwhile; the next worker evaluates the approvals again
 */
export async function callsToApprove(
  tools: ToolsByName,
  { parts }: Pick<Response, 'parts'>,
  held: HeldClaim,
): Promise<ReadonlySet<number>> {
  const checks = parts.map(async (part, index): Promise<number[]> => {
    const tool = isOpenCall(part) ? tools.get(part.toolName) : undefined;
    return tool !== undefined && isOpenCall(part) && (await needsApproval(tool, part.input, held.signal))
      ? [index]
      : [];
  });
  const waitingIds = new Set((await Promise.all(checks)).flat());
  const stopped = held.stopped();
  if (stopped === 'shutdown' || stopped === 'lost')
    throw new BatonError('fenced', 'the step was stopped before its calls');
  return waitingIds;
}

async function needsApproval({ needsApproval: needs }: Tool, input: unknown, signal: AbortSignal): Promise<boolean> {
  if (typeof needs !== 'function') return needs === true;
  try {
    const stop = AbortSignal.any([signal, AbortSignal.timeout(APPROVAL_CHECK_TIMEOUT_MS)]);
    return await Promise.race([needs(withPlainNumbers(input)), untilAborted(stop)]);
  } catch {
    return true;
  }
}

/** Resolves to true on abort: without an answer of the tool's function the call needs an approval. */
function untilAborted(signal: AbortSignal): Promise<true> {
  if (signal.aborted) return Promise.resolve(true);
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(true), { once: true }));
}
