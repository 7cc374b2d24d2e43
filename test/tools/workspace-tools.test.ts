import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { createFixture } from './workspace-fixture.ts';

const tools = createWorkspaceTools({ root: '.' });
const names = ['list_files', 'read_file', 'grep', 'write_file', 'edit_file', 'bash'];
const validInputs: Record<string, unknown> = {
  list_files: {},
  read_file: { path: 'a.txt' },
  grep: { pattern: 'a' },
  write_file: { path: 'a.txt', content: 'new' },
  edit_file: { path: 'a.txt', oldText: 'a', newText: 'b' },
  bash: { command: 'echo changed > a.txt' },
};

describe('createWorkspaceTools', () => {
  it('gives the six tools, with reading marked read-only, and none that may be repeated over what others wrote', () => {
    expect(tools.map((tool) => [tool.name, tool.readOnly ?? false, tool.idempotent ?? false])).toEqual([
      ['list_files', true, false],
      ['read_file', true, false],
      ['grep', true, false],
      ['write_file', false, false],
      ['edit_file', false, false],
      ['bash', false, false],
    ]);
  });

  it('has a strict JSON Schema with a description for every field', () => {
    for (const { inputSchema } of tools) {
      if (!(inputSchema instanceof z.ZodType)) throw new Error('not a zod schema');
      const schema = z.toJSONSchema(inputSchema);
      expect(schema.additionalProperties).toBe(false);
      for (const field of Object.values(schema.properties ?? {})) {
        expect(field).toMatchObject({ description: expect.any(String) });
      }
    }
  });

  it.each(names)('refuses unknown fields of %s and names them', async (name) => {
    await using workspace = await createFixture();
    const input = Object.assign({ surprise: 1 }, validInputs[name]);
    await expect(workspace.call(name, input)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('surprise'),
    });
  });

  it.each(names)('does nothing in %s when the call is already aborted', async (name) => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', 'a');
    const reason = new Error('cancelled');
    await expect(workspace.call(name, validInputs[name], AbortSignal.abort(reason))).rejects.toMatchObject({
      code: 'ABORTED',
      cause: reason,
    });
    expect(await workspace.call('read_file', { path: 'a.txt' })).toBe('     1\ta');
  });
});
