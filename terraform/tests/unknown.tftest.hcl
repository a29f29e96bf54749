# Nothing that a user makes in the same configuration stops a plan: neither `count` nor `for_each` depends on a value that is known after apply.

mock_provider "aws" {}

run "names_arns_and_ids_are_unknown_until_apply" {
  command = plan

  module {
    source = "./tests/unknown"
  }

  assert {
    condition     = output.plan.policies == ["catalog", "reporting", "storage"]
    error_message = "The parts of a policy are known, though no ARN in them is."
  }
}
