import type { z } from '@hono/zod-openapi';
import { readAgent } from '../../agents/agent.ts';
import { getViewRoute, type viewBody } from '../../api/view.ts';
import { contextMeterOf, knownModel, offeredTools } from '../../claims/context-meter.ts';
import { toShownContent } from '../../domain/context/shown-content.ts';
import { type ShownMessage, showRequest } from '../../domain/context/shown-request.ts';
import { isInlineText } from '../../domain/model/model-files.ts';
import { sendsFilesAfterResults } from '../../domain/model/shown-media.ts';
import { readContext } from '../../store/session/context.ts';
import { nameMedia } from '../../store/transcript/media.ts';
import { pageOf } from '../bodies/content-page.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

type ViewBody = z.infer<typeof viewBody>;

/** The view of a session, as its next request shows it to the model. */
export function registerViewRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(getViewRoute, async (c) => {
    const { id } = c.req.valid('param');
    const { after = 0, limit } = c.req.valid('query');
    const context = await readContext(deps.db, tenantOf(c), id);
    const agent = readAgent(context.agentSnapshot);
    const model = await knownModel(deps, deps.models(agent.model), tenantOf(c));
    const offered = await offeredTools(deps, agent, model, context.view);
    const meter = await contextMeterOf(agent, model, offered);
    const { total, byKind } = meter.measure(context.view, context.contextState);
    const { view } = meter.show(context.view);
    const { protocol, providerTools } = model.resolved;
    const entries = showRequest(view, meter.count, {
      model: agent.model,
      ...(providerTools !== undefined && { providerTools }),
      calls: meter.entry.tools,
      filesAfterResults: sendsFilesAfterResults(protocol),
      media: await nameMedia(deps.db, id, view, isInlineText),
    });
    const ratio = meter.ratioOf(context.contextState);
    const instructions = instructionsOf(meter);
    const count = instructions.length + entries.length;
    const first = Math.max(0, after - instructions.length);
    const messages = [...instructions.slice(after), ...entries.slice(first, first + limit).map(toMessage)].map(
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
