"""What was asked, as requests of the engine: defaults filled in, names mapped, the rules between fields kept."""

from __future__ import annotations

from kvtop.engine.requests import Request, Turn
from kvtop.serve.asked import MAX_PROMPTS, Asked, ChatAsked, CompletionAsked, Message, TokenIds, TokenizeAsked
from kvtop.serve.faults import ApiFault, bad_field


def completion_requests(asked: CompletionAsked, call_id: str, max_model_len: int) -> list[Request]:
    """One request for each prompt of the call, in order.

    Raises:
        ApiFault: the prompts, or fields together, cannot be taken.
    """
    prompts = _prompts(asked.prompt)
    if len(prompts) > MAX_PROMPTS:
        raise bad_field(f"prompt: holds {len(prompts)} prompts, expected at most {MAX_PROMPTS} in one call")
    max_tokens = _max_tokens("max_tokens", asked.max_tokens, max_model_len) or 16
    return [
        _checked(
            _sampling(
                asked,
                id=call_id if len(prompts) == 1 else f"{call_id}-{number}",
                prompt=prompt if isinstance(prompt, str) else None,
                prompt_token_ids=None if isinstance(prompt, str) else prompt,
                max_tokens=max_tokens,
                logprobs=asked.logprobs,
            )
        )
        for number, prompt in enumerate(prompts)
    ]


def chat_request(asked: ChatAsked, call_id: str, max_model_len: int) -> Request:
    """The request of a chat call.

    Raises:
        ApiFault: fields together cannot be taken.
    """
    if asked.top_logprobs is not None and not asked.logprobs:
        raise bad_field(f"top_logprobs: is {asked.top_logprobs} without logprobs; set logprobs to true")
    if None not in (asked.max_tokens, asked.max_completion_tokens) and asked.max_tokens != asked.max_completion_tokens:
        raise bad_field("max_completion_tokens: differs from max_tokens, which is its older name; give one of them")
    limit = _max_tokens("max_tokens", asked.max_tokens, max_model_len)
    limit = _max_tokens("max_completion_tokens", asked.max_completion_tokens, max_model_len) or limit
    return _checked(
        _sampling(
            asked,
            id=call_id,
            messages=[_turn(message) for message in asked.messages],
            max_tokens=limit or max_model_len,  # it ends where the model's length does
            logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
        )
    )


def measured_request(asked: TokenizeAsked) -> Request:
    """A request whose prompt is to be counted.

    Raises:
        ApiFault: there is no prompt, or there are two.
    """
    turns = None if asked.messages is None else [_turn(message) for message in asked.messages]
    return _checked(Request(id="tokenize", prompt=asked.prompt, messages=turns))


def _prompts(prompt: str | list[str | int | TokenIds]) -> list[str | list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    numbers = [item for item in prompt if isinstance(item, int)]
    if not numbers:
        return [item for item in prompt if not isinstance(item, int)]
    if len(numbers) < len(prompt):
        raise bad_field("prompt: mixes token ids with other things, expected token ids of one prompt, or prompts")
    return [numbers]


def _max_tokens(field: str, asked: int | None, max_model_len: int) -> int | None:
    if asked is not None and asked > max_model_len:
        raise bad_field(f"{field}: is {asked}, expected at most the model's length of {max_model_len} tokens")
    return asked


def _turn(message: Message) -> Turn:
    content = message.content
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    return Turn("system" if message.role == "developer" else message.role, text)


def _sampling(
    asked: Asked,
    *,
    id: str,
    max_tokens: int,
    logprobs: int | None,
    prompt: str | None = None,
    prompt_token_ids: list[int] | None = None,
    messages: list[Turn] | None = None,
) -> Request:
    stop = asked.stop or []
    return Request(
        id=id,
        prompt=prompt,
        prompt_token_ids=prompt_token_ids,
        messages=messages,
        max_tokens=max_tokens,
        priority=asked.priority or 0,
        n=1 if asked.n is None else asked.n,
        temperature=1.0 if asked.temperature is None else asked.temperature,
        top_k=max(0, asked.top_k or 0),
        top_p=1.0 if asked.top_p is None else asked.top_p,
        min_p=asked.min_p or 0.0,
        repetition_penalty=1.0 if asked.repetition_penalty is None else asked.repetition_penalty,
        seed=asked.seed,
        stop=[stop] if isinstance(stop, str) else stop,
        stop_token_ids=asked.stop_token_ids or [],
        ignore_eos=bool(asked.ignore_eos),
        logprobs=logprobs,
        salt=asked.cache_salt or "",
    )


def _checked(request: Request) -> Request:
    if fault := request.check():
        raise bad_field(fault.replace("salt:", "cache_salt:", 1) if fault.startswith("salt:") else fault)
    return request


def check_stream(asked: Asked) -> None:
    """
    Raises:
        ApiFault: options of a stream, for an answer that is none.
    """
    if asked.stream_options is not None and not asked.stream:
        raise bad_field("stream_options: goes with stream, which is not true here")


def check_model(wanted: str, served: str) -> None:
    """
    Raises:
        ApiFault: another model is asked for than the one that is served.
    """
    if wanted != served:
        raise ApiFault(
            404,
            f"model: there is no {wanted[:200]!r} here, {served!r} is served",
            param="model",
            code="model_not_found",
        )
