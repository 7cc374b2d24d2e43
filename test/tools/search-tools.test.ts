import { describe, expect, it } from 'vitest';
import { createSearchTools, findTools } from '../../src/tools/search-tools.ts';

const tools = [
  { name: 'docs__find', description: 'Finds pages.' },
  { name: 'docs__fetch_page', description: 'Gives a page.' },
  { name: 'mail__send', description: 'Sends a message to somebody.' },
];
const namesFor = (query: string, limit = 5) => findTools(tools, query, limit).map(({ name }) => name);

const call = (input: unknown) => {
  const signal = new AbortController().signal;
  return createSearchTools(tools).execute(input, {
    signal,
    callKey: 'k',
    toolCallId: 'c',
    tenantId: 't',
    sessionId: 's',
    runId: 'r',
  });
};

describe('search_tools', () => {
  it('finds by words in name and description, the name first', () => {
    expect(namesFor('find')).toEqual(['docs__find']);
    expect(namesFor('page')).toEqual(['docs__fetch_page', 'docs__find']);
    expect(namesFor('send a message!')).toContain('mail__send');
    expect(namesFor('docs', 1)).toHaveLength(1);
    expect(namesFor('weather')).toEqual([]);
    expect(namesFor('a … is')).toEqual([]);
  });

  it('gives names and descriptions', async () => {
    expect(await call({ query: 'mail' })).toEqual({ tools: [tools[2]] });
  });

  it('tells what there is where nothing is found, in words that do not count as found', async () => {
    const answer = await call({ query: 'weather' });
    expect(answer).toContain('docs  find');
    for (const { name } of tools) expect(answer).not.toContain(name);
  });
});
