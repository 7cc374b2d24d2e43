import { expect, it } from 'vitest';
import { PROFILE_NAMES, type ProfileName, profileNamed, SESSION_PROFILES } from '../../simulator/profiles.ts';
import { PNG_BASE64 } from '../support/png.ts';

const BROKEN = Buffer.from(PNG_BASE64, 'base64').subarray(0, 40).toString('base64');
const picture = (data: string) => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } });
const combined = { type: 'object', properties: {}, anyOf: [{ required: ['a'] }] };
const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAA' };
const functionCall = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look', arguments: '{}' };

/** Requests, each with the one rule that it breaks; what the same profile takes has none. */
const ROWS: readonly (readonly [ProfileName, unknown, string | undefined])[] = [
  ['anthropic', { temperature: 0 }, 'temperature'],
  ['anthropic', { tools: [{ input_schema: combined }] }, 'combination'],
  ['anthropic', { tools: [{ input_schema: { properties: { $top: {} } } }] }, 'properties'],
  ['anthropic', { messages: [{ role: 'user', content: [picture(BROKEN)] }] }, 'images'],
  ['anthropic', { messages: [{ content: [{ type: 'tool_result', content: [picture(BROKEN)] }] }] }, 'images'],
  ['anthropic', { messages: [{ role: 'user', content: [picture(PNG_BASE64)] }] }, undefined],
  ['bedrock', { thinking: { block_binding: {} } }, 'binding'],
  ['bedrock', { messages: [{ content: [call] }] }, 'definitions'],
  ['bedrock', { messages: [{ content: [call] }], tools: [{}] }, undefined],
  ['deepseek-anthropic', { messages: [{ content: [picture(PNG_BASE64)] }] }, 'images'],
  ['deepseek-anthropic', { messages: [{ content: [call] }] }, 'thoughts'],
  ['deepseek-anthropic', { messages: [{ content: [{ type: 'thinking' }, call] }] }, undefined],
  ['openai', { input: [{ ...functionCall, id: 'msg_1' }] }, 'ids'],
  ['openai', { input: [{ ...functionCall, call_id: 'c'.repeat(65) }] }, 'call-ids'],
  ['openai', { input: [reasoning, { role: 'user', content: 'Hi' }] }, 'following'],
  ['openai', { input: [functionCall, functionCall] }, 'twice'],
  ['openai', { tools: [{ name: 'look', parameters: combined }] }, 'combination'],
  ['openai', { temperature: 0 }, 'temperature'],
  ['openai', { reasoning: { summary: 'auto' } }, 'summary'],
  ['openai', { input: [{ content: [{ image_url: `data:image/png;base64,${BROKEN}` }] }] }, 'images'],
  ['openai', { input: [reasoning, functionCall], reasoning: {} }, undefined],
  ['responses-pool', { input: [reasoning, functionCall] }, 'reasoning'],
  ['responses-plain', { include: ['reasoning.encrypted_content'] }, 'include'],
  ['responses-plain', { prompt_cache_key: 'ses' }, 'prompt_cache_key'],
];

it.each(ROWS)('%s judges %j: %s', (name, body, rule) => {
  expect(profileNamed(name).refuses(body)?.rule).toBe(rule);
});

it('whole suites can run over every profile that lets a script tell sessions apart', () => {
  expect(PROFILE_NAMES.filter((name) => !SESSION_PROFILES.includes(name))).toEqual(['gateway', 'responses-plain']);
});
