import type { Agent } from '../agents/agent.ts';
import { contextMeterOf, knownModel, offeredTools } from '../claims/context-meter.ts';
import { estimateMessage, totalOf } from '../domain/context/meter/message-tokens.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import { estimateText } from '../domain/context/meter/tokens.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { createLoopShare } from '../platform/share-loop.ts';
import type { HttpDeps } from './http-deps.ts';

/** A longer text is estimated: an exact tokenizer would hold up other requests. */
const EXACT_CHARS = 50_000;
/** An exact tokenizer takes about so many times as long as other work on a text. */
const TOKENIZER_WORK = 10;

type Measured = Readonly<{
  tenantId: string;
  agent: Agent;
  /** The view of the session, and its state. */
  view: readonly ViewMessage[];
  contextState: ContextState;
  /** Messages that are not in the view yet. */
  added: readonly ViewMessage[];
}>;

/** Tokens of the next request with these messages, as everything that acts on the context counts them. */
export async function measureRequest(
  deps: HttpDeps,
  { tenantId, agent, view, contextState, added }: Measured,
): Promise<number> {
  const model = await knownModel(deps, deps.models(agent.model), tenantId);
  const meter = await contextMeterOf(agent, model, await offeredTools(deps, agent, model, [...view, ...added]));
  const count = (text: string) => (text.length > EXACT_CHARS ? estimateText(text) : meter.count(text));
  const shareLoop = createLoopShare();
  let tokens = 0;
  for (const message of meter.show(added).view) {
    tokens += totalOf(estimateMessage(message, count, { model: meter.model }));
    await shareLoop(charsOf(message) * TOKENIZER_WORK);
  }
  return meter.measure(view, contextState).total + Math.ceil(meter.ratioOf(contextState) * tokens);
}

const charsOf = ({ parts }: ViewMessage): number =>
  parts.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : JSON.stringify(part).length), 0);
