from slipstream.compiled import compiled


def test_a_function_that_cannot_be_kept_for_the_next_process_is_compiled_all_the_same():
    names = {}
    exec("def double(x):\n    return 2 * x", names)  # in no file, so there is no place beside it
    assert compiled(names["double"])(21) == 42
