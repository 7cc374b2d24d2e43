import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readYaml } from '../../src/platform/read-yaml.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test.each([
  ['key: [1\nother: 2\n', 'line 2, column 1: not valid YAML: Flow sequence in block collection must be'],
  ['a: 1\na: 2\n', 'line 2, column 1: not valid YAML: Map keys must be unique'],
  ['a: *nothing\n', 'not valid YAML: Unresolved alias'],
])('what is no YAML is refused with its place and the reason (%#)', async (content, problem) => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, 'settings.yaml');
  await writeFile(file, content);
  expect(() => readYaml(file, 'the settings')).toThrow(expect.objectContaining({ code: 'config_invalid' }));
  expect(() => readYaml(file, 'the settings')).toThrow(`the settings: ${problem}`);
});

test('nothing of what stands in the file is repeated: it may be a key', async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, 'settings.yaml');
  for (const content of [
    'key: "sk-12345" sk-12345\n',
    'key: sk-12345: x\n',
    '"sk-12345" "sk-12345"\n',
    '{ sk-12345 ',
  ]) {
    await writeFile(file, content);
    expect(() => readYaml(file, 'the settings')).toThrow(/^the settings: line \d+, column \d+: not valid YAML: .{5,}/);
    expect(() => readYaml(file, 'the settings')).not.toThrow(/12345/);
  }
});

test('a file that is not there is said to be not there', () => {
  expect(() => readYaml('/nowhere/at/all.yaml', 'the settings')).toThrow('the settings: cannot be read: ENOENT');
});

test('keys keep their order and long numbers their digits, also by an alias', async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, 'agent.yaml');
  await writeFile(
    file,
    'b: &b { 10: 12345678901234567890, 2: 1.5, x: [-0.1e400] }\n2: *b\nc: { <<: *b, y: 9007199254740993 }\n',
  );
  const b = '{"10":12345678901234567890,"2":1.5,"x":[-0.1e400]}';
  expect(JSON.stringify(readYaml(file, 'the agent'))).toBe(`{"b":${b},"2":${b},"c":{"<<":${b},"y":9007199254740993}}`);
});
