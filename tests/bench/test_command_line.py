from lab.bench.outside_aws.command_line import figures


def test_a_command_is_timed_on_the_clock_and_the_processor() -> None:
    found = figures({"help": ("--help",)}, {})
    assert set(found) == {"help_least_s", "help_median_s", "help_least_cpu_s"}
    assert float(str(found["help_least_cpu_s"])) > 0
