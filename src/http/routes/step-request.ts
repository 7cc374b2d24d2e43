import type { z } from '@hono/zod-openapi';
import { readAgent } from '../../agents/agent.ts';
import { getStepRequestRoute, type stepRequestBody } from '../../api/step-request.ts';
import { askForOutput } from '../../claims/ask-for-output.ts';
import { contextMeterOf, describeTools, knownModel, offeredTools } from '../../claims/context-meter.ts';
import { NEW_CONTEXT_STATE } from '../../domain/context/meter/state.ts';
import { toShownContent } from '../../domain/context/shown-content.ts';
import { type ShownMessage, showRequest } from '../../domain/context/shown-request.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { callIdFormOf } from '../../domain/model/model-calls.ts';
import { isInlineText } from '../../domain/model/model-files.ts';
import { requestNotice } from '../../domain/model/request-notice.ts';
import { sendsFilesAfterResults } from '../../domain/model/shown-media.ts';
import { hashShown, hashTools } from '../../model/request-hash.ts';
import { nameMedia } from '../../store/transcript/media.ts';
import { type HiddenPart, readStepRequest, type StepRequest } from '../../store/transcript/step-request.ts';
import { pageOf } from '../bodies/content-page.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export function registerStepRequestRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(getStepRequestRoute, async (c) => {
    const { id: runId, no: step } = c.req.valid('param');
    const { attempt = null, after = 0, limit } = c.req.valid('query');
    const tenantId = tenantOf(c);
    const stepRequest = await readStepRequest(deps.db, { tenantId, runId, step, attempt });
    const { count, messages, ...request } = await recompute(deps, tenantId, stepRequest, { after, limit });
    const page = pageOf(messages, limit);
    const last = page.at(-1)?.no ?? count;
    const ids = { runId: formatId('run', runId), sessionId: formatId('session', stepRequest.sessionId), step };
    return c.json({ ...ids, ...request, messages: page, next: last < count ? last : null }, 200);
  });
}

type Body = z.infer<typeof stepRequestBody>;
type Message = Body['messages'][number];

type Recomputed = Omit<Body, 'runId' | 'sessionId' | 'step' | 'next'> & Readonly<{ count: number }>;

/** The request of a step, from its view, by the code that made it then: `count` messages, and those of the page. */
async function recompute(
  deps: HttpDeps,
  tenantId: string,
  stepRequest: StepRequest,
  { after, limit }: Readonly<{ after: number; limit: number }>,
): Promise<Recomputed> {
  const { sessionId, request } = stepRequest;
  const session = readAgent(stepRequest.agentSnapshot);
  // The run may have gone on with a fallback.
  const agent = { ...session, model: stepRequest.model ?? session.model };
  const model = await knownModel(deps, deps.models(agent.model), tenantId);
  const { finalAnswerFor = null, outputState } = request ?? {};
  const format = stepRequest.outputFormat;
  const result = outputState === undefined || format === null ? null : { format, state: outputState };
  const {
    request: way,
    tools: offered,
    measured,
  } = askForOutput({ output: result, finalAnswerFor }, model, await offeredTools(deps, agent, model, stepRequest.view));
  const meter = await contextMeterOf(agent, model, measured);
  const { view } = meter.show(stepRequest.view);
  const { protocol, providerTools } = model.resolved;
  const media = await nameMedia(deps.db, sessionId, view, isInlineText);
  const entries = showRequest(view, meter.count, {
    model: agent.model,
    ...(providerTools !== undefined && { providerTools }),
    calls: meter.entry.tools,
    callIds: callIdFormOf(protocol),
    filesAfterResults: sendsFilesAfterResults(protocol),
    media,
    endsWithNotice: true,
    notice: requestNotice(finalAnswerFor, result, way?.by ?? null),
  });
  const sha256 = hashShown(
    meter.instructions,
    entries.map(({ message }) => message),
    new Map(),
  );
  const tools = describeTools(offered);
  const { total, byKind } = meter.measure(view, NEW_CONTEXT_STATE);
  return {
    attempt: stepRequest.attempt,
    messageId: formatId('message', stepRequest.messageId),
    agent: agent.name,
    model: agent.model,
    verified: request === null ? null : request.sha256 === sha256,
    toolsVerified: request === null ? null : request.toolsSha256 === hashTools(tools),
    sha256: request?.sha256 ?? null,
    tokens: total,
    byKind: { ...byKind },
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    ...pageMessages(stepRequest, { text: meter.instructions, tokens: meter.overheadTokens.instructions }, entries, {
      after,
      limit,
    }),
  };
}

/** The messages of the page among `count`. The instructions are the first, if the agent has any. */
function pageMessages(
  { sessionId, hidden: allHidden }: StepRequest,
  { text, tokens }: Readonly<{ text: string; tokens: number }>,
  entries: readonly ShownMessage[],
  { after, limit }: Readonly<{ after: number; limit: number }>,
): Pick<Recomputed, 'count' | 'messages'> {
  const bySeq = Map.groupBy(allHidden, ({ seq }) => seq);
  const toMessage = ({ message, seqs, countTokens }: ShownMessage) => ({
    ...sized(message.content.map((part) => toShownContent(part))),
    role: message.role,
    seqs: [...seqs],
    tokens: countTokens(),
    hidden: seqs.flatMap((seq) => bySeq.get(seq) ?? []).filter((part) => isOf(part, message.role)),
  });
  const instructions = text === '' ? [] : [toInstructions(text, tokens)];
  const first = Math.max(0, after - instructions.length);
  const paged = [...instructions.slice(after), ...entries.slice(first, first + limit).map(toMessage)];
  return {
    count: instructions.length + entries.length,
    messages: paged.map(
      ({ hidden, ...message }, index): Message => ({
        ...message,
        no: after + index + 1,
        hidden: hidden.map((part) => toHiddenBody(sessionId, part)),
      }),
    ),
  };
}

const sized = (content: Message['content']) => ({ content, bytes: Buffer.byteLength(JSON.stringify(content)) });

const toInstructions = (text: string, size: number) => ({
  ...sized([{ type: 'text', text }]),
  role: 'system' as const,
  seqs: [],
  tokens: size,
  hidden: [] as HiddenPart[],
});

/** A step is an assistant message and one with its results: only the latter hides results. */
const isOf = ({ toolName }: HiddenPart, role: Message['role']): boolean =>
  toolName === null ? role === 'user' : role === 'tool';

function toHiddenBody(
  sessionId: string,
  { messageId, index, toolName, seq, ...part }: HiddenPart,
): Message['hidden'][number] {
  return {
    ...part,
    callId: toolName === null ? null : formatCallId(messageId, index),
    toolName,
    messageId: formatId('message', messageId),
    seq,
    href: `/v1/sessions/${formatId('session', sessionId)}/messages?after=${seq - 1}&limit=1`,
  };
}
