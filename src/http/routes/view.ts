import { createRoute, z } from '@hono/zod-openapi';
import { readAgent } from '../../agents/agent.ts';
import { contextMeterOf, knownModel, offeredTools } from '../../claims/context-meter.ts';
import { TOKEN_KINDS } from '../../domain/context/meter/measure.ts';
import { toShownContent } from '../../domain/context/shown-content.ts';
import { type ShownMessage, showRequest } from '../../domain/context/shown-request.ts';
import { isInlineText } from '../../domain/model/model-files.ts';
import { sendsFilesAfterResults } from '../../domain/model/shown-media.ts';
import { readContext } from '../../store/session/context.ts';
import { nameMedia } from '../../store/transcript/media.ts';
import { pageOf } from '../bodies/content-page.ts';
import { afterField, idParams, limitField } from '../bodies/fields.ts';
import { jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

const tokens = z.number().int();

const viewBody = z
  .object({
    model: z.string(),
    version: z.int().openapi({
      description: 'Changes with a compaction or a prune: pages of two versions are not of one view.',
    }),
    tokens: tokens.openapi({ description: 'Of the whole request, as in `/context`.' }),
    byKind: z.object(Object.fromEntries(TOKEN_KINDS.map((kind) => [kind, tokens]))),
    tools: z.array(z.string()).openapi({ description: 'That the request offers.' }),
    messages: z.array(
      z.object({
        no: z.int().openapi({ description: 'Its place in the request, from 1.' }),
        role: z.enum(['system', 'user', 'assistant', 'tool']),
        seqs: z.array(z.int()).openapi({ description: 'The messages of the transcript that it is made of.' }),
        tokens: tokens.openapi({ description: 'Estimated. Files of results count with the results.' }),
        bytes: z.int().openapi({ description: 'Of `content` as JSON.' }),
        content: z.array(z.looseObject({ type: z.string() })).openapi({
          description: 'Its parts as the model reads them; a file by its `url`, in place of its bytes.',
        }),
      }),
    ),
    next: z.int().nullable().openapi({ description: 'Pass it as `after`; null at the end.' }),
  })
  .openapi('View');

type ViewBody = z.infer<typeof viewBody>;

const getView = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/view',
  operationId: 'getView',
  tags: ['context'],
  summary: 'What the next request would show the model',
  description:
    'Instructions and messages as they are sent, with summaries, placeholders and notices. What waits is not in it: it comes after this. ' +
    'A page has fewer messages than its limit where they are large.',
  request: { params: idParams('session'), query: z.strictObject({ after: afterField, limit: limitField }) },
  responses: { 200: jsonOf(viewBody, 'A page of the request.'), ...REFUSED, ...NOT_FOUND },
});

/** The view of a session, as its next request shows it to the model. */
export function registerViewRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(getView, async (c) => {
    const { id } = c.req.valid('param');
    const { after = 0, limit } = c.req.valid('query');
    const context = await readContext(deps.db, tenantOf(c), id);
    const agent = readAgent(context.agentSnapshot);
    const known = await knownModel(deps, deps.models(agent.model), tenantOf(c));
    const offered = await offeredTools(deps, agent, known, context.view);
    const meter = await contextMeterOf(agent, known, offered);
    const { total, byKind } = meter.measure(context.view, context.contextState);
    const { view } = meter.show(context.view);
    const { protocol, providerTools } = known.resolved;
    const shown = showRequest(view, meter.count, {
      model: agent.model,
      ...(providerTools !== undefined && { providerTools }),
      calls: meter.entry.tools,
      filesAfterResults: sendsFilesAfterResults(protocol),
      media: await nameMedia(deps.db, id, view, isInlineText),
    });
    const ratio = meter.ratioOf(context.contextState);
    const instructions = instructionsOf(meter);
    const count = instructions.length + shown.length;
    const first = Math.max(0, after - instructions.length);
    const messages = [...instructions.slice(after), ...shown.slice(first, first + limit).map(toMessage)].map(
      (message, at) => ({ ...message, no: after + at + 1, tokens: Math.ceil(ratio * message.tokens) }),
    );
    const page = pageOf(messages, limit);
    const last = page.at(-1)?.no ?? count;
    const next = last < count ? last : null;
    const tools = offered.map(({ name }) => name);
    return c.json(
      { model: agent.model, version: context.version, tokens: total, byKind, tools, messages: page, next },
      200,
    );
  });
}

type Shown = Omit<ViewBody['messages'][number], 'no'>;

function instructionsOf(meter: Awaited<ReturnType<typeof contextMeterOf>>): Shown[] {
  const { instructions, overheadTokens } = meter;
  if (instructions === '') return [];
  const content = [{ type: 'text', text: instructions }];
  return [{ role: 'system', seqs: [], tokens: overheadTokens.instructions, bytes: bytesOf(content), content }];
}

function toMessage({ message, seqs, countTokens }: ShownMessage): Shown {
  const content = message.content.map((part) => toShownContent(part));
  return { role: message.role, seqs: [...seqs], tokens: countTokens(), bytes: bytesOf(content), content };
}

const bytesOf = (content: unknown): number => Buffer.byteLength(JSON.stringify(content));
