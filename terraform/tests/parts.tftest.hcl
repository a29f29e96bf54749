# Taking parts of it only.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-west-1" }
  }
}

variables {
  name     = "compactor"
  database = { name = "school", create = false }
}

run "an_existing_lake_and_database_are_left_alone" {
  variables {
    lake = { bucket = "our-lake", create = false, kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/7", warehouse = "raw/cdc" }
  }

  assert {
    condition     = toset(keys(aws_s3_bucket.this)) == toset(["code", "logs"]) && toset(keys(aws_s3_bucket_policy.this)) == toset(["code", "logs"])
    error_message = "An existing lake gets neither settings nor a policy."
  }

  assert {
    condition     = length(aws_glue_catalog_database.this) == 0
    error_message = "An existing database is not made again."
  }

  assert {
    condition     = output.warehouse == "s3://our-lake/raw/cdc" && strcontains(output.job_policies.storage, "arn:aws:s3:::our-lake/raw/cdc/*") && strcontains(output.job_policies.storage, "arn:aws:kms:eu-west-1:123456789012:key/7")
    error_message = "Jobs get their rights on it, and on its key."
  }

  assert {
    condition     = [for statement in jsondecode(output.iceberg_reader_policy).Statement : statement.Resource if statement.Action == ["kms:Decrypt"]] == ["arn:aws:kms:eu-west-1:123456789012:key/7"]
    error_message = "Readers of Iceberg tables may use its key."
  }
}

run "rights_without_compute" {
  variables {
    serverless = null
  }

  assert {
    condition     = length(aws_emrserverless_application.this) + length(aws_iam_role.job) + length(aws_cloudwatch_log_group.jobs) + length(aws_cloudwatch_event_rule.failed_job) == 0
    error_message = "Without an application nothing that belongs to one is made."
  }

  assert {
    condition     = output.application_id == null && output.job_role_arn == null && strcontains(output.job_policies.catalog, "glue:BatchCreatePartition")
    error_message = "The policies are there for a role of one's own."
  }

  assert {
    condition     = !strcontains(output.caller_policy, "emr-serverless:") && !strcontains(output.caller_policy, "iam:PassRole")
    error_message = "There is nothing to start."
  }

  assert {
    condition     = yamldecode(output.compactor_yaml) == { warehouse = output.warehouse, catalog = { type = "glue", database = "school" }, region = "eu-west-1", defaults = {} }
    error_message = "compactor.yaml has no block for EMR."
  }
}

run "a_topic_that_exists" {
  variables {
    notifications = { topic = { arn = "arn:aws:sns:eu-west-1:123456789012:pages" } }
    alarms        = {}
  }

  assert {
    condition     = length(aws_sns_topic.this) == 0 && length(aws_sns_topic_policy.this) == 0 && aws_cloudwatch_metric_alarm.this["freshness"].alarm_actions == toset(["arn:aws:sns:eu-west-1:123456789012:pages"])
    error_message = "Alarms go where the user says, and that topic's policy is its owner's."
  }
}

run "a_dashboard_without_alarms" {
  variables {
    dashboard = true
  }

  assert {
    condition     = yamldecode(output.compactor_yaml).metrics == { deployment = "compactor", namespace = "Compactor" }
    error_message = "Runs send what it shows."
  }

  assert {
    condition = alltrue([
      for policy in [output.job_policies.reporting, output.caller_policy] : anytrue([
        for statement in jsondecode(policy).Statement : try(statement.Condition.StringEquals["cloudwatch:namespace"], "") == "Compactor"
      ])
    ])
    error_message = "And may."
  }
}

run "a_partition_of_its_own" {
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-cn", dns_suffix = "amazonaws.com.cn" }
  }
  override_data {
    target = data.aws_region.current
    values = { region = "cn-north-1" }
  }

  assert {
    condition     = !strcontains(jsonencode(output.job_policies), "arn:aws:") && jsondecode(aws_iam_role.job[0].assume_role_policy).Statement[0].Principal.Service == "emr-serverless.amazonaws.com.cn"
    error_message = "No ARN and no service is written for one partition."
  }
}

run "objects_that_are_in_the_code_bucket_already" {
  variables {
    mwaa = { subnet_ids = ["subnet-a", "subnet-b"], security_group_ids = ["sg-4"], requirements = { key = "own.txt", version = "7" } }
  }

  assert {
    condition     = length(aws_s3_object.mwaa) == 0 && aws_mwaa_environment.this[0].requirements_s3_path == "own.txt" && aws_mwaa_environment.this[0].requirements_s3_object_version == "7" && aws_mwaa_environment.this[0].plugins_s3_path == null
    error_message = "MWAA takes the user's objects, and nothing that was not given."
  }
}

run "a_cluster_with_a_metastore_service" {
  variables {
    cluster = { subnet_id = "subnet-a", primary_security_group_id = "sg-1", core_security_group_id = "sg-2", service_security_group_id = "sg-3", glue_metastore = false }
  }

  assert {
    condition     = length(aws_emr_cluster.this[0].auto_termination_policy) == 0
    error_message = "It stays while nothing runs: another cluster would have another id."
  }

  assert {
    condition     = jsondecode(aws_emr_cluster.this[0].configurations_json) == [] && length(aws_emrserverless_application.this[0].runtime_configuration) == 0
    error_message = "No job reaches Glue unless it asks for it."
  }
}

run "a_cluster_that_ends_itself" {
  variables {
    cluster = { subnet_id = "subnet-a", primary_security_group_id = "sg-1", core_security_group_id = "sg-2", service_security_group_id = "sg-3", idle_timeout_minutes = 90 }
  }

  assert {
    condition     = one(aws_emr_cluster.this[0].auto_termination_policy).idle_timeout == 5400
    error_message = "Minutes are made seconds."
  }
}

run "the_secret_of_hashes" {
  variables {
    hash_secret = {
      arn         = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hashes-AbCdEf"
      kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/secrets"
    }
  }

  assert {
    condition     = yamldecode(output.compactor_yaml).defaults.hash_secret == "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hashes-AbCdEf"
    error_message = "compactor.yaml names it."
  }

  assert {
    condition     = alltrue([for part in ["secret:hashes-AbCdEf", "key/secrets"] : strcontains(output.job_policies.storage, part) && !strcontains(output.caller_policy, part)])
    error_message = "Jobs may read it, callers may not."
  }
}

run "keys_of_archives" {
  variables {
    archive_keys = {
      default  = { role_arns = ["arn:aws:iam::123456789012:role/erasers"] }
      payments = { existing = { arn = "arn:aws:kms:eu-west-1:123456789012:key/payments" } }
    }
  }

  override_resource {
    target = aws_kms_key.archive
    values = { arn = "arn:aws:kms:eu-west-1:123456789012:key/archive" }
  }
  assert {
    condition     = keys(aws_kms_key.archive) == ["default"] && output.archive_key_arns == { default = "arn:aws:kms:eu-west-1:123456789012:key/archive", payments = "arn:aws:kms:eu-west-1:123456789012:key/payments" }
    error_message = "A key is made unless there is one."
  }

  assert {
    condition     = yamldecode(output.compactor_yaml).defaults.archive_kms_key == "arn:aws:kms:eu-west-1:123456789012:key/archive"
    error_message = "The default is in compactor.yaml."
  }

  assert {
    condition     = alltrue([for arn in values(output.archive_key_arns) : strcontains(output.job_policies.storage, arn) && !strcontains(output.caller_policy, arn)])
    error_message = "Jobs use them; callers do not."
  }

  assert {
    condition = jsonencode([
      for statement in jsondecode(aws_kms_key.archive["default"].policy).Statement : [statement.Action, statement.Condition]
      if anytrue([for action in statement.Action : can(regex("Decrypt|Encrypt|DataKey|CreateGrant|[*]", action))])
      ]) == jsonencode([[
        ["kms:Decrypt", "kms:GenerateDataKey"],
        { ArnEquals = { "aws:PrincipalArn" = [aws_iam_role.job[0].arn, "arn:aws:iam::123456789012:role/erasers"] } },
    ]])
    error_message = "The policy of the key lets nobody else use it."
  }
}
