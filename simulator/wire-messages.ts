import { z } from 'zod';
import { countText, FRAMING } from './tokens.ts';
import { type Violation, violation } from './violation.ts';
import { WireError, type WireMemo, type WireRequest, type WireTool, type WireTurn } from './wire.ts';
import { fieldText, patternProblem, readBlock, TOOL_NAME } from './wire-messages-block.ts';

const marked = z.looseObject({
  cache_control: z.strictObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).optional() }).nullish(),
});

const bodySchema = z.looseObject({
  model: z.string(),
  max_tokens: z.number().int().min(1),
  messages: z.array(
    z.strictObject({ role: z.enum(['user', 'assistant']), content: z.union([z.string(), z.array(marked)]) }),
  ),
  system: z.union([z.string(), z.array(marked)]).nullish(),
  stream: z.boolean().nullish(),
  tools: z.array(marked).nullish(),
  tool_choice: z.looseObject({ type: z.string() }).nullish(),
  metadata: z.looseObject({ user_id: z.string().nullish() }).nullish(),
  thinking: z
    .looseObject({
      type: z.string().optional(),
      block_binding: z.looseObject({ prefix_mismatch_behavior: z.enum(['error', 'drop_block']) }).optional(),
    })
    .nullish(),
});

/**
 * Reads a body of the Messages protocol. Each content block is an item, without its cache mark: marks move between
 * requests and are no part of the prompt.
 * @throws WireError if the body does not have the protocol's shape.
 */
export function readMessagesRequest(body: unknown, memo: WireMemo): WireRequest {
  const parsed = bodySchema.safeParse(body);
  if (!parsed.success) throw new WireError(fieldText(parsed.error), null, { cause: parsed.error });
  const request = parsed.data;
  const marks = createMarks();
  const item = (role: string, block: Marked) => memo.item({ role, block: marks.strip(block) }, readBlock);
  // In the order of the prompt, because the marks' places count in it.
  const tools = (request.tools ?? []).map((tool) => memo.tool(marks.strip(tool), readTool));
  const system = blocksOf(request.system ?? '').map((block) => item('system', block));
  const turns = request.messages.map(
    ({ role, content }): WireTurn => ({ role, items: blocksOf(content).map((block) => item(role, block)) }),
  );
  return {
    protocol: 'messages',
    model: request.model,
    stream: request.stream === true,
    includeUsage: true,
    includeEncrypted: true,
    items: [...system, ...turns.flatMap(({ items }) => items)],
    tools,
    cacheKey: request.metadata?.user_id ?? '',
    maxOutputTokens: request.max_tokens,
    toolChoice: request.tool_choice?.type ?? 'auto',
    problems: marks.problems,
    messages: {
      turns,
      breakpoints: marks.places,
      needsThinking: request.thinking?.type === 'enabled',
      dropsForeignThinking: request.thinking?.block_binding?.prefix_mismatch_behavior === 'drop_block',
    },
  };
}

type Marked = z.infer<typeof marked>;

/** A string as content is short for one text block; an empty string is no block. */
function blocksOf(content: string | readonly Marked[]): readonly Marked[] {
  if (typeof content !== 'string') return content;
  return content === '' ? [] : [{ type: 'text', text: content }];
}

function createMarks(): { places: number[]; problems: Violation[]; strip: (block: Marked) => object } {
  const places: number[] = [];
  const problems: Violation[] = [];
  let place = 0;
  return {
    places,
    problems,
    strip: ({ cache_control: mark, ...rest }) => {
      if (mark !== undefined && mark !== null) {
        places.push(place);
        if (isThinking(rest)) problems.push(violation('cache', 'cache_control: cannot be set on thinking blocks'));
      }
      place += 1;
      return rest;
    },
  };
}

const isThinking = ({ type }: Marked): boolean => type === 'thinking' || type === 'redacted_thinking';

const toolSchema = z.looseObject({
  name: z.string(),
  description: z.string().nullish(),
  input_schema: z.looseObject({ type: z.literal('object') }),
});

function readTool(json: unknown): Omit<WireTool, 'digest'> {
  const parsed = toolSchema.safeParse(json);
  if (!parsed.success) {
    const tool = { name: '', description: '', inputSchema: undefined };
    return { tool, tokens: FRAMING.tool, problems: [violation('shape', `{path}.${fieldText(parsed.error)}`)] };
  }
  const { name, description, input_schema: inputSchema } = parsed.data;
  return {
    tool: { name, description: description ?? '', inputSchema },
    tokens: FRAMING.tool + countText(`${name}\n${description ?? ''}\n${JSON.stringify(inputSchema)}`),
    problems: TOOL_NAME.test(name) ? [] : [patternProblem('name', TOOL_NAME)],
  };
}
