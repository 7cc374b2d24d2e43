import type { HeldClaim } from '../claims/claim-keeper.ts';
import { BatonError } from '../domain/errors.ts';
import { type InterruptedStep, planAsks, planStarts, type ToolTraits } from '../domain/run/settlement.ts';
import type { CallRequiringAction } from '../domain/transcript/required-action.ts';
import { APPROVAL_CHECK_TIMEOUT_MS } from '../domain/tunables.ts';
import { isServerTool, type Tool } from '../tools/tool.ts';
import { isOpenCall } from './endings/partial-answer.ts';

export type ToolsByName = ReadonlyMap<string, Tool>;
type Response = Pick<InterruptedStep, 'finishReason' | 'parts'>;

/** The calls of a whole response that need an approval, by their index; null where a function decides, in its own time. */
export function knownApprovals(tools: ToolsByName, { parts }: Pick<Response, 'parts'>): ReadonlySet<number> | null {
  const needed = parts.map((part) => (isOpenCall(part) ? tools.get(part.toolName)?.needsApproval : false));
  if (needed.some((needs) => typeof needs === 'function')) return null;
  return new Set(needed.flatMap((needs, index) => (needs === true ? [index] : [])));
}

/** The calls of a whole response that somebody has to say something about before they run, or instead. */
export function findRequiredActions(
  tools: ToolsByName,
  response: Response,
  toApprove: ReadonlySet<number>,
): CallRequiringAction[] {
  return planAsks(response, traitsOf(tools), toApprove);
}

/** The calls that are `running` with their response, by their index. One that only reads is marked by its outcome. */
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

/** What settlement needs to know of tools. */
export function traitsOf(tools: ToolsByName): ToolTraits {
  return (name) => {
    const tool = tools.get(name);
    return {
      idempotent: tool?.idempotent === true || tool?.readOnly === true,
      isClientSide: tool !== undefined && !isServerTool(tool),
      asksWhenUnknown: tool?.onUnknown === 'ask',
    };
  };
}

/**
 * The calls that have not started and need an approval, by their index.
 * @throws BatonError `fenced` when the step is handed back meanwhile: whoever has it next asks again
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
  const asked = new Set((await Promise.all(checks)).flat());
  const stopped = held.stopped();
  if (stopped === 'shutdown' || stopped === 'lost')
    throw new BatonError('fenced', 'the step was stopped before its calls');
  return asked;
}

async function needsApproval({ needsApproval: needs }: Tool, input: unknown, signal: AbortSignal): Promise<boolean> {
  if (typeof needs !== 'function') return needs === true;
  try {
    const stop = AbortSignal.any([signal, AbortSignal.timeout(APPROVAL_CHECK_TIMEOUT_MS)]);
    return await Promise.race([needs(input), untilAborted(stop)]);
  } catch {
    return true;
  }
}

/** True once the signal is aborted: nobody has said by then that the call needs no approval. */
function untilAborted(signal: AbortSignal): Promise<true> {
  if (signal.aborted) return Promise.resolve(true);
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(true), { once: true }));
}
