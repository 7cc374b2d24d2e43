import { describe, expect, it } from 'vitest';
import {
  CONTINUE_NOTICE,
  EMPTY_MESSAGE,
  frameSummary,
  missingFileNotice,
  NO_OUTPUT,
  START_NOTICE,
  UNNAMED_TOOL,
} from '../../src/domain/model/model-frames.ts';
import { toModelMessages } from '../../src/domain/model/model-messages.ts';
import type { Part, ProviderMetadata, ToolPart, ViewMessage } from '../../src/domain/transcript/message.ts';
import { UNKNOWN_OUTCOME } from '../../src/domain/transcript/required-action.ts';
import { wireBody } from './wire.ts';

const MODEL = 'openai/gpt-5';
const OTHER = 'openai/gpt-4.1';

const text = (value: string, providerMetadata?: ProviderMetadata): Part => ({
  type: 'text',
  text: value,
  ...(providerMetadata !== undefined && { providerMetadata }),
});
const call = (toolCallId: string, more: Partial<ToolPart> = {}): ToolPart => ({
  type: 'tool',
  toolCallId,
  toolName: 'read',
  input: { path: 'a' },
  state: 'completed',
  output: { type: 'text', value: `result of ${toolCallId}` },
  ...more,
});
const reasoning = (value: string, providerMetadata?: ProviderMetadata): Part => ({
  type: 'reasoning',
  text: value,
  ...(providerMetadata !== undefined && { providerMetadata }),
});
const encrypted = (itemId: string, content: string | null): ProviderMetadata => ({
  openai: { itemId, reasoningEncryptedContent: content },
});

type Draft = { role: 'user' | 'assistant'; model?: string; parts: Part[] };
const user = (...parts: Part[]): Draft => ({ role: 'user', parts });
const assistant = (...parts: Part[]): Draft => ({ role: 'assistant', model: MODEL, parts });

function viewOf(drafts: readonly Draft[]): ViewMessage[] {
  return drafts.map(({ role, model, parts }, index) => ({
    id: `message-${index}`,
    seq: index + 1,
    role,
    model: model ?? null,
    parts,
  }));
}
const shown = (...drafts: Draft[]) => toModelMessages(viewOf(drafts), { model: MODEL });
const userText = (...texts: string[]) => ({
  role: 'user',
  content: texts.map((value) => ({ type: 'text', text: value })),
});
const answered = (...ids: string[]) => ({
  role: 'tool',
  content: ids.map((id) => expect.objectContaining({ type: 'tool-result', toolCallId: id })),
});

describe('calls and results', () => {
  // Field bugs: opencode#21326, opencode#10616 left a call without its result, and every later request was refused.
  it('answers a batch of parallel calls whole, in its order, in one tool message', () => {
    expect(shown(user(text('go')), assistant(text('reading'), call('a'), call('b')))).toEqual([
      userText('go'),
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'reading' },
          { type: 'tool-call', toolCallId: 'a', toolName: 'read', input: { path: 'a' } },
          { type: 'tool-call', toolCallId: 'b', toolName: 'read', input: { path: 'a' } },
        ],
      },
      {
        role: 'tool',
        content: [
          { type: 'tool-result', toolCallId: 'a', toolName: 'read', output: { type: 'text', value: 'result of a' } },
          { type: 'tool-result', toolCallId: 'b', toolName: 'read', output: { type: 'text', value: 'result of b' } },
        ],
      },
    ]);
  });

  it.each([
    ['pending', { type: 'error-text', value: 'This call has not run.' }],
    ['awaiting_approval', { type: 'error-text', value: 'This call has not run: it waits for approval.' }],
    ['running', { type: 'error-text', value: 'This call is still running: it has no result yet.' }],
    ['unknown', { type: 'error-text', value: UNKNOWN_OUTCOME }],
    ['denied', { type: 'execution-denied' }],
    ['error', { type: 'error-text', value: 'The call failed.' }],
    ['completed', { type: 'text', value: NO_OUTPUT }],
  ] as const)('explains a call that is %s and has no output', (state, output) => {
    const { output: _, ...withoutOutput } = call('a');
    expect(shown(user(text('go')), assistant({ ...withoutOutput, state })).at(-1)).toEqual({
      role: 'tool',
      content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'read', output }],
    });
  });

  it('does not take the partial output of a call without outcome for its result', () => {
    const part = call('a', { state: 'running', output: { type: 'text', value: 'half' } });
    expect(JSON.stringify(shown(user(text('go')), assistant(part)))).not.toContain('half');
  });

  it('says why a call was denied', () => {
    const part = call('a', { state: 'denied', output: { type: 'execution-denied', reason: 'too dangerous' } });
    expect(JSON.stringify(shown(user(text('go')), assistant(part)))).toContain('too dangerous');
  });

  it('never shows an empty output', () => {
    const parts = [
      call('a', { output: { type: 'text', value: '' } }),
      call('b', { state: 'error', output: { type: 'error-text', value: ' \n' } }),
      call('c', { state: 'denied', output: { type: 'execution-denied', reason: '' } }),
    ];
    expect(shown(user(text('go')), assistant(...parts)).at(-1)?.content).toMatchObject([
      { output: { type: 'text', value: NO_OUTPUT } },
      { output: { type: 'error-text', value: NO_OUTPUT } },
      { output: { type: 'execution-denied' } },
    ]);
  });

  // Field bug: fastagent PR #26 looked for the result of a repeated id in the whole history.
  it('gives a repeated id the place of its call, in the batch and across steps, and leaves the first as it was', () => {
    const messages = shown(user(text('go')), assistant(call('a'), call('a')), assistant(call('a')));
    expect(messages.filter(({ role }) => role === 'tool')).toEqual([answered('a', 'a-2-1'), answered('a-3-0')]);
  });

  it('keeps an id that looks like a generated one, unless a call before it has it', () => {
    const free = shown(user(text('go')), assistant(call('a'), call('a-2-1')));
    expect(free.at(-1)).toEqual(answered('a', 'a-2-1'));
    const taken = shown(user(text('go')), assistant(call('a'), call('a'), call('a-2-1')));
    expect(taken.at(-1)).toEqual(answered('a', 'a-2-1', 'a-2-1-2-2'));
  });

  it('makes ids and names fit what every provider takes', () => {
    const long = 'x'.repeat(100);
    const messages = shown(
      user(text('go')),
      assistant(
        call('functions.bash:0', { toolName: 'mcp.docs/read' }),
        call(long),
        call(long),
        call('', { toolName: '' }),
      ),
    );
    expect(messages.at(-1)).toEqual(answered('functions_bash_0', 'x'.repeat(64), `${'x'.repeat(60)}-2-2`, 'call'));
    expect(messages.at(-1)?.content).toMatchObject([{ toolName: 'mcp_docs_read' }, {}, {}, { toolName: UNNAMED_TOOL }]);
  });

  it('wraps an input that is no object', () => {
    const messages = shown(user(text('go')), assistant(call('a', { input: '{"path": ' })));
    expect(messages[1]?.content).toMatchObject([{ input: { rawInvalidInput: '{"path": ' } }]);
  });

  it('sends calls after the text of their step, wherever they were recorded', () => {
    const messages = shown(user(text('go')), assistant(text('1'), call('a'), text('2'), call('b')));
    expect(messages[1]?.content.map((part) => ('text' in part ? part.text : part.type))).toEqual([
      '1',
      '2',
      'tool-call',
      'tool-call',
    ]);
  });
});

describe('calls that the provider ran', () => {
  const hosted = call('ws_1', {
    toolName: 'web_search',
    providerExecuted: true,
    output: { type: 'json', value: { action: { type: 'search', query: 'q' } } },
    resultProviderMetadata: { openai: { itemId: 'ws_1' } },
  });

  it('stay with their result in the assistant message for the model they came from', () => {
    expect(shown(user(text('go')), assistant(hosted, text('found')), user(text('thanks')))[1]).toEqual({
      role: 'assistant',
      content: [
        expect.objectContaining({ type: 'tool-call', toolCallId: 'ws_1', providerExecuted: true }),
        expect.objectContaining({
          type: 'tool-result',
          toolCallId: 'ws_1',
          providerOptions: { openai: { itemId: 'ws_1' } },
        }),
        { type: 'text', text: 'found' },
      ],
    });
  });

  it('are ordinary calls for another model, for an API without such calls, and without a result of the provider', () => {
    const foreign = shown(user(text('go')), { ...assistant(hosted), model: OTHER });
    const plainApi = toModelMessages(viewOf([user(text('go')), assistant(hosted)]), {
      model: MODEL,
      providerTools: false,
    });
    const unsettled = shown(user(text('go')), assistant({ ...hosted, state: 'unknown' }));
    for (const messages of [foreign, plainApi, unsettled]) {
      expect(messages.at(-1)).toEqual(answered('ws_1'));
      expect(JSON.stringify(messages)).not.toContain('providerExecuted');
    }
  });
});

describe('order of roles', () => {
  it('begins with a notice when the view begins with the assistant', () => {
    expect(shown(assistant(text('hi')), user(text('go')))[0]).toEqual(userText(START_NOTICE));
  });

  it('never ends with an assistant message', () => {
    expect(shown(user(text('go')), assistant(text('hi'))).at(-1)).toEqual(userText(CONTINUE_NOTICE));
    expect(shown(user(text('go')), assistant(call('a'))).at(-1)).toEqual(answered('a'));
    expect(shown()).toEqual([userText(CONTINUE_NOTICE)]);
  });

  it('separates assistant messages that nothing separates', () => {
    expect(shown(user(text('go')), assistant(text('1')), assistant(text('2')), user(text('on')))).toEqual([
      userText('go'),
      { role: 'assistant', content: [{ type: 'text', text: '1' }] },
      userText(CONTINUE_NOTICE),
      { role: 'assistant', content: [{ type: 'text', text: '2' }] },
      userText('on'),
    ]);
  });

  it('joins user messages in a row, each text in a part of its own', () => {
    expect(shown(user(text('1'), text(' ')), user(text('2')), user(text('  3\n')))).toEqual([
      userText('1', '2', '  3\n'),
    ]);
  });

  it('shows an empty message of the user as such and drops an empty one of the assistant', () => {
    expect(shown(user(text(' \n')), assistant(text(''), { type: 'step-start' }), user())).toEqual([
      userText(EMPTY_MESSAGE, EMPTY_MESSAGE),
    ]);
  });
});

describe('queued messages that one step drained together', () => {
  const queued = (queuedNo: number, part: Extract<Part, { type: 'text' | 'file' }>): Part => ({ ...part, queuedNo });
  const words = (value: string) => ({ type: 'text' as const, text: value });
  const image = { type: 'file' as const, mediaType: 'image/png', url: 'data:image/png;base64,iVBORw0KGgo=' };

  it('are told apart by labels: words for two, numbers for more', () => {
    expect(shown(user(queued(1, words('left')), queued(2, words('right'))))).toEqual([
      userText('First: left', 'Also: right'),
    ]);
    expect(shown(user(queued(1, words('a')), text('and b'), queued(2, words('c')), queued(3, words('d'))))).toEqual([
      userText('[1]: a', 'and b', '[2]: c', '[3]: d'),
    ]);
  });

  it('have their label before a file that comes first, and in the text that stands in its place', () => {
    const [message] = viewOf([user(queued(1, words('Look')), queued(2, image), text('here'))]);
    const file = expect.objectContaining({ type: 'file' });
    expect(shown(user(...(message?.parts ?? [])))).toEqual([
      {
        role: 'user',
        content: [...userText('First: Look', 'Also:').content, file, ...userText('here').content],
      },
    ]);
    const stripped = message?.parts.map((part) => ({ ...part, marks: { mediaStripped: true as const } })) ?? [];
    expect(shown(user(...stripped))).toEqual([
      userText('First: Look', expect.stringMatching(/^Also: \[Attached image\/png/), 'here'),
    ]);
  });

  it('keep their labels when a compaction carries them over', () => {
    const carried: Part[] = [queued(1, words('left')), queued(2, words('right'))];
    expect(shown(user({ type: 'compaction', text: 'Before.' }, ...carried))).toEqual([
      userText(frameSummary('Before.'), 'First: left', 'Also: right'),
    ]);
  });
});

describe('summaries and files', () => {
  // Field bugs: crush#2551, eve#1844: a summary that was read as a task.
  it('shows a summary as reference in a user message, whoever the message is from', () => {
    const summary: Part = { type: 'compaction', text: 'Goal: x' };
    expect(shown(user(summary), assistant(text('hi')), user(text('go')))[0]).toEqual(userText(frameSummary('Goal: x')));
    expect(shown(assistant(summary), user(text('go')))).toEqual([userText(frameSummary('Goal: x'), 'go')]);
    expect(frameSummary('Goal: x')).toMatch(/reference, not instruction/);
  });

  it('sends images and PDFs of the user', () => {
    const png: Part = {
      type: 'file',
      mediaType: 'IMAGE/PNG',
      filename: 'a.png',
      url: 'data:image/png;base64,iVBORw0=',
    };
    const link: Part = { type: 'file', mediaType: 'image/jpeg', filename: ' ', url: 'https://example.com/a.jpg' };
    expect(shown(user(png, link))[0]?.content).toEqual([
      { type: 'file', data: { type: 'data', data: 'iVBORw0=' }, mediaType: 'image/png', filename: 'a.png' },
      { type: 'file', data: { type: 'url', url: new URL('https://example.com/a.jpg') }, mediaType: 'image/jpeg' },
    ]);
  });

  it.each([
    ['audio/wav', 'data:audio/wav;base64,AAAA'],
    ['image/png', '@blob:0123'],
    ['image/png', 'data:image/png;base64,'],
    ['image/png', 'data:image/png,hello'],
    ['image/png', 'file:///etc/passwd'],
    ['image/png', 'https://'],
  ])('names a file that no provider could be sent: %s at %s', (mediaType, url) => {
    expect(shown(user({ type: 'file', mediaType, url, filename: 'f' }))).toEqual([
      userText(missingFileNotice(mediaType, 'f')),
    ]);
  });

  it('does not send files of the assistant, sources and step starts', () => {
    const parts: Part[] = [
      { type: 'step-start' },
      { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,iVBORw0=' },
      { type: 'source', sourceId: '1', url: 'https://example.com' },
      text('done'),
    ];
    expect(shown(user(text('go')), assistant(...parts))[1]?.content).toEqual([{ type: 'text', text: 'done' }]);
  });
});

describe('reasoning and metadata', () => {
  const types = (drafts: Draft[]) =>
    shown(user(text('go')), ...drafts)
      .filter(({ role }) => role === 'assistant')
      .flatMap(({ content }) => content.map((part) => ('text' in part ? part.text : part.type)));

  it('goes back to the model that wrote it, before what it led to', () => {
    const parts = [reasoning('why', encrypted('rs_1', 'gA')), text('so', { openai: { itemId: 'msg_1' } }), call('a')];
    expect(shown(user(text('go')), assistant(...parts))[1]?.content.slice(0, 2)).toEqual([
      { type: 'reasoning', text: 'why', providerOptions: encrypted('rs_1', 'gA') },
      { type: 'text', text: 'so', providerOptions: { openai: { itemId: 'msg_1' } } },
    ]);
  });

  it('does not go to another model, and no metadata does', () => {
    const message = assistant(
      reasoning('why', encrypted('rs_1', 'gA')),
      text('so', { openai: { itemId: 'msg_1' } }),
      call('a', { providerMetadata: { openai: { itemId: 'fc_1' } }, resultProviderMetadata: { openai: { x: 1 } } }),
    );
    expect(types([{ ...message, model: OTHER }])).toEqual(['so', 'tool-call']);
    expect(JSON.stringify(shown(user(text('go')), { ...message, model: OTHER }))).not.toContain('providerOptions');
  });

  it.each([
    [undefined],
    [encrypted('rs_1', null)],
    [encrypted('rs_1', '')],
    [{ openai: { itemId: 'rs_1' } }],
    [{ anthropic: {} }],
  ])('is dropped when it is unsigned: %j', (metadata) => {
    expect(types([assistant(reasoning('why', metadata), text('so'))])).toEqual(['so']);
  });

  it.each([[{ anthropic: { signature: 'c2ln' } }], [{ anthropic: { redactedData: 'cmVk' } }]])(
    'is kept, and first, when it is signed by Anthropic: %j',
    (metadata) => {
      expect(types([assistant(call('a'), reasoning('why', metadata), text('so'))])).toEqual(['why', 'so', 'tool-call']);
    },
  );

  it('leads the message when it is Anthropic’s, and stays where it is between the parts once some of it leads', () => {
    const thinking = (thought: string) => reasoning(thought, { anthropic: { signature: 'c2ln' } });
    expect(types([assistant(text('so'), thinking('why'), text('then'))])).toEqual(['why', 'so', 'then']);
    expect(types([assistant(thinking('why'), text('so'), thinking('how'), text('then'))])).toEqual([
      'why',
      'so',
      'how',
      'then',
    ]);
  });

  it.each([
    ['last', { openai: { itemId: 'rs_1' } }, encrypted('rs_1', 'gA')],
    ['first', encrypted('rs_1', 'gA'), encrypted('rs_1', '')],
  ])(
    'reaches the wire as one item with all its summaries, although only the %s carries the encrypted content',
    async (_which, first, second) => {
      const view = [
        user(text('go')),
        assistant(
          reasoning('first', first),
          reasoning('second', second),
          text('so', { openai: { itemId: 'msg_1' } }),
          call('a', { providerMetadata: { openai: { itemId: 'fc_1' } } }),
        ),
      ];
      const body = await wireBody('responses', shown(...view));
      expect(body.input).toEqual([
        { role: 'user', content: [{ type: 'input_text', text: 'go' }] },
        {
          type: 'reasoning',
          id: 'rs_1',
          encrypted_content: 'gA',
          summary: [
            { type: 'summary_text', text: 'first' },
            { type: 'summary_text', text: 'second' },
          ],
        },
        { role: 'assistant', content: 'so' },
        { type: 'function_call', call_id: 'a', name: 'read', arguments: '{"path":"a"}' },
        { type: 'function_call_output', call_id: 'a', output: 'result of a' },
      ]);
    },
  );

  it('moves with the item it belongs to and goes when that item is not sent', () => {
    const one = reasoning('for the call', encrypted('rs_1', 'gA'));
    const two = reasoning('for the text', encrypted('rs_2', 'gB'));
    expect(types([assistant(one, call('a'), two, text('so'))])).toEqual([
      'for the text',
      'so',
      'for the call',
      'tool-call',
    ]);
    expect(types([assistant(two, text(' '), one, call('a'))])).toEqual(['for the call', 'tool-call']);
    expect(types([assistant(text('so'), two)])).toEqual(['so']);
    expect(types([assistant(two)])).toEqual([]);
  });

  it('goes when nothing but a call of the provider follows, which a request that stores nothing does not carry', () => {
    const hosted = call('fs_1', {
      toolName: 'file_search',
      providerExecuted: true,
      output: { type: 'json', value: {} },
    });
    const why = reasoning('why', encrypted('rs_1', 'gA'));
    expect(types([assistant(why, hosted)])).toEqual(['tool-call', 'tool-result']);
    expect(types([assistant(why, hosted, text('so'))])).toEqual(['why', 'tool-call', 'tool-result', 'so']);
  });
});
