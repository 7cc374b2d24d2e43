import { combinedAt, isReadablePng, type Rule, refusesField, type Ways } from './profile-rules.ts';

/** Endpoints of Anthropic's Messages protocol. What all of them refuse is in `strict-messages.ts`. */
export const MESSAGES_PROFILES = ['anthropic', 'bedrock', 'deepseek-anthropic'] as const;
type Name = (typeof MESSAGES_PROFILES)[number];

type Source = Readonly<{ type?: string; media_type?: string; data?: string }>;
type Block = Readonly<{
  type?: string;
  source?: Source;
  content?: string | readonly Block[];
  cache_control?: Readonly<{ ttl?: string }> | null;
}>;
export type MessagesBody = Readonly<{
  messages?: readonly Readonly<{ role?: string; content?: string | readonly Block[] }>[];
  tools?: readonly Readonly<{ input_schema?: { properties?: object } }>[];
  temperature?: number;
  thinking?: Readonly<{ type?: string; block_binding?: object }>;
}>;

const listOf = (content: string | readonly Block[] = []): readonly Block[] =>
  typeof content === 'string' ? [] : content;
const messagesOf = ({ messages = [] }: MessagesBody) => messages;
/** All blocks, with those of results. */
const blocksOf = (body: MessagesBody): readonly Block[] =>
  messagesOf(body).flatMap(({ content }) => listOf(content).flatMap((block) => [block, ...listOf(block.content)]));

const isBrokenImage = ({ type, source }: Block): boolean =>
  type === 'image' &&
  source?.type === 'base64' &&
  source.media_type === 'image/png' &&
  !isReadablePng(source.data ?? '');

const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/;

function oddPropertyAt({ tools = [] }: MessagesBody): number {
  return tools.findIndex(({ input_schema: schema }) =>
    Object.keys(schema?.properties ?? {}).some((name) => !PROPERTY_NAME.test(name)),
  );
}

export const MESSAGES_RULES: Readonly<Record<Name, readonly Rule<MessagesBody>[]>> = {
  anthropic: [
    refusesField('temperature', '`temperature` is deprecated for this model.'),
    {
      name: 'combination',
      words(body) {
        const at = combinedAt((body.tools ?? []).map(({ input_schema: schema }) => schema));
        const problem = 'input_schema does not support oneOf, allOf, or anyOf at the top level';
        return at < 0 ? undefined : `tools.${at}.custom.input_schema: ${problem}`;
      },
    },
    {
      name: 'properties',
      words(body) {
        const at = oddPropertyAt(body);
        const problem = `Property keys should match pattern '${PROPERTY_NAME.source}'`;
        return at < 0 ? undefined : `tools.${at}.custom.input_schema.properties: ${problem}`;
      },
    },
    { name: 'images', words: (body) => (blocksOf(body).some(isBrokenImage) ? 'Could not process image' : undefined) },
  ],
  bedrock: [
    {
      name: 'binding',
      words: ({ thinking }) =>
        thinking?.block_binding === undefined ? undefined : 'thinking.block_binding: Extra inputs are not permitted',
    },
    {
      name: 'definitions',
      words: (body) =>
        (body.tools ?? []).length === 0 &&
        blocksOf(body).some(({ type }) => type === 'tool_use' || type === 'tool_result')
          ? 'The toolConfig field must be defined when using toolUse and toolResult content blocks.'
          : undefined,
    },
  ],
  'deepseek-anthropic': [
    {
      name: 'images',
      words: (body) =>
        blocksOf(body).some(({ type }) => type === 'image')
          ? 'Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image`, expected one of `text`, `thinking`, `tool_use`, `tool_result`'
          : undefined,
    },
    {
      name: 'thoughts',
      words: (body) =>
        messagesOf(body).some(({ content }) => {
          const types = listOf(content).map(({ type }) => type);
          return types.includes('tool_use') && !types.includes('thinking');
        })
          ? 'The `content[].thinking` in the thinking mode must be passed back to the API.'
          : undefined,
    },
  ],
};

export const MESSAGES_WAYS: Readonly<Record<Name, Ways>> = {
  anthropic: {},
  bedrock: { signs: 'free' },
  'deepseek-anthropic': { signs: 'never', takes: ['signature'] },
};
