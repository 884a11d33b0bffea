#!/usr/bin/env python3
"""Calls a server with the clients of LangChain and LiteLLM: a chat, a stream, a required tool call, a streamed one, embeddings.

usage: check_clients.py [--url http://127.0.0.1:8000] [--key KEY]

Needs the packages langchain-openai and litellm. Prints a line for each check; exit code 1 where one failed.
"""
import argparse
import json
import math
import os
import sys
import urllib.request

ASK = "Which town is the weather asked for in: Paris? Call the tool."
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a town.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string", "maxLength": 12}}, "required": ["town"],
                   "additionalProperties": False}}}


def expect(holds, found):
    if not holds:
        raise AssertionError(f"unexpected: {found!r}"[:300])


def expect_unit(vectors, count):
    expect(len(vectors) == count, len(vectors))
    for vector in vectors:
        expect(abs(math.hypot(*vector) - 1) < 1e-3, math.hypot(*vector))


def expect_call(name, arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    expect(name == "weather" and list(arguments) == ["town"] and isinstance(arguments["town"], str), (name, arguments))


def langchain_checks(url, key, model):
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    chat = ChatOpenAI(base_url=url, api_key=key, model=model, temperature=0, max_tokens=48, stream_usage=True)
    forced = chat.bind_tools([TOOL], tool_choice="weather")

    def invoke():
        answer = chat.invoke("Say hello.")
        expect(answer.content and answer.usage_metadata["output_tokens"] > 0, answer)

    def stream():
        parts = list(chat.stream("Count to five."))
        whole = sum(parts[1:], parts[0])
        expect(len(parts) > 3 and whole.content == chat.invoke("Count to five.").content, whole)

    def call():
        (one,) = forced.invoke(ASK).tool_calls
        expect_call(one["name"], one["args"])

    def streamed_call():
        parts = list(forced.stream(ASK))
        (one,) = sum(parts[1:], parts[0]).tool_calls
        expect_call(one["name"], one["args"])

    def structured():
        schema = {"title": "Answer", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                  "additionalProperties": False}
        answer = chat.with_structured_output(schema, method="json_schema").invoke("How many legs has a dog?")
        expect(isinstance(answer["n"], int), answer)

    def embed():
        # Without the check it sends texts; with it, token ids of a vocabulary that it would fetch.
        embeddings = OpenAIEmbeddings(base_url=url, api_key=key, model=model, check_embedding_ctx_length=False)
        expect_unit(embeddings.embed_documents(["sea", "mountain"]), 2)
        expect_unit([embeddings.embed_query("sea")], 1)

    return {"langchain " + f.__name__: f for f in (invoke, stream, call, streamed_call, structured, embed)}


def litellm_checks(url, key, model):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
    import litellm

    common = {"model": "openai/" + model, "api_base": url, "api_key": key}
    asked = {**common, "temperature": 0, "max_tokens": 48}

    def hello(content):
        return [{"role": "user", "content": content}]

    def invoke():
        expect(litellm.completion(**asked, messages=hello("Say hello.")).choices[0].message.content, "an empty answer")

    def stream():
        parts = [p.choices[0].delta.content or "" for p in
                 litellm.completion(**asked, messages=hello("Count to five."), stream=True) if p.choices]
        whole = litellm.completion(**asked, messages=hello("Count to five.")).choices[0].message.content
        expect("".join(parts) == whole, parts)

    def call():
        answer = litellm.completion(**asked, messages=hello(ASK), tools=[TOOL], tool_choice="required")
        (one,) = answer.choices[0].message.tool_calls
        expect_call(one.function.name, one.function.arguments)

    def streamed_call():
        parts = list(litellm.completion(**asked, messages=hello(ASK), tools=[TOOL], tool_choice="required", stream=True))
        whole = litellm.stream_chunk_builder(parts, messages=hello(ASK))
        (one,) = whole.choices[0].message.tool_calls
        expect_call(one.function.name, one.function.arguments)

    def embed():
        answer = litellm.embedding(**common, input=["sea", "mountain"])
        expect_unit([one["embedding"] for one in answer.data], 2)

    return {"litellm " + f.__name__: f for f in (invoke, stream, call, streamed_call, embed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", default="none")
    flags = parser.parse_args()
    url = flags.url.rstrip("/") + "/v1"
    request = urllib.request.Request(url + "/models", headers={"Authorization": "Bearer " + flags.key})
    model = json.load(urllib.request.urlopen(request))["data"][0]["id"]
    failed = 0
    for name, check in {**langchain_checks(url, flags.key, model), **litellm_checks(url, flags.key, model)}.items():
        try:
            check()
            print("passed", name, flush=True)
        except Exception as error:  # whatever a client raises is a failure of its check
            failed += 1
            print("FAILED", name, "-", type(error).__name__, str(error)[:300], flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
