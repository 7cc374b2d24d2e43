#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

// The sources are TypeScript, which Node runs from version 24 on, but not below node_modules: an installed package has its
// JavaScript. npm brings a Node along: an older one starts that.
const IS_INSTALLED = /[\\/]node_modules[\\/]/.test(fileURLToPath(import.meta.url));
const MAIN = new URL(IS_INSTALLED ? '../dist/src/cli/baton.js' : '../src/cli/baton.ts', import.meta.url);
const NEEDED_MAJOR = 24;

if (Number.parseInt(process.versions.node, 10) >= NEEDED_MAJOR) await import(MAIN.href);
else start(findNode());

function findNode() {
  try {
    const manifest = createRequire(import.meta.url).resolve('node/package.json');
    return path.join(path.dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
  } catch {
    process.stderr.write(`baton needs Node ${NEEDED_MAJOR}; this is ${process.version}. Run "npm ci" in its folder.\n`);
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
