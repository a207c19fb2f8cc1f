// Evaluates positions with Stockfish 19 and a network of the user's: node evaluate.mjs SF_19.JS NET < one FEN a line.
// Prints the integer of each, internal units, the side to move's view.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [script, net] = process.argv.slice(2);
const positions = readFileSync(0, "utf8").split("\n").filter((line) => line);
const { default: load } = await import(pathToFileURL(script).href);
const engine = await load();
const found = [];

const ask = () => {
    engine.uci(`position fen ${positions[found.length]}`);
    engine.uci("eval");
};

engine.onError = (line) => process.stderr.write(`${line}\n`);
engine.listen = (text) => {
    for (const line of text.split("\n")) {
        if (line === "readyok") ask();
        const value = /^NNUE evaluation +([+-]?\d+) \(side to move, internal units\)/.exec(line);
        if (!value) continue;
        found.push(Number(value[1]));
        if (found.length < positions.length) {
            ask();
        } else {
            process.stdout.write(found.join("\n") + "\n", () => process.exit(0));
        }
    }
};
engine.uci("uci");
engine.setNnueBuffer(new Uint8Array(readFileSync(net)));
engine.uci("isready");
