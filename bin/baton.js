#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

// Node does not run TypeScript below node_modules: an installed package has its JavaScript, which asks less of Node than
// the sources of a clone. To a clone npm brings a Node along, which an older one starts.
const IS_INSTALLED = /[\\/]node_modules[\\/]/.test(fileURLToPath(import.meta.url));
const MAIN = new URL(IS_INSTALLED ? '../dist/src/cli/baton.js' : '../src/cli/baton.ts', import.meta.url);
const [NEEDED_MAJOR, NEEDED_MINOR] = IS_INSTALLED ? [22, 18] : [24, 0];
const [major, minor] = process.versions.node.split('.').map(Number);

if (major > NEEDED_MAJOR || (major === NEEDED_MAJOR && minor >= NEEDED_MINOR)) await import(MAIN.href);
else start(findNode());

function findNode() {
  try {
    const manifest = createRequire(import.meta.url).resolve('node/package.json');
    return path.join(path.dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
  } catch {
    const remedy = IS_INSTALLED ? 'Install a newer Node.' : 'Run "npm ci" in its folder, which brings one along.';
    process.stderr.write(
      `baton needs Node ${NEEDED_MAJOR}.${NEEDED_MINOR} or newer; this is ${process.version}. ${remedy}\n`,
    );
    process.exit(1);
  }
}

function start(node) {
  const child = spawn(node, [fileURLToPath(MAIN), ...process.argv.slice(2)], { stdio: 'inherit' });
  // A terminal's Ctrl-C reaches the child by itself.
  process.on('SIGINT', () => undefined);
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`baton cannot start ${node}: ${error.message}\n`);
    process.exitCode = 1;
  });
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 128 + constants.signals[signal];
  });
}
