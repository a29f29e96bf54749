# What the smallest use makes, and how it is kept safe. Nothing is created: the provider is a mock. `terraform test` runs these.

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
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  }
  mock_resource "aws_emrserverless_application" {
    defaults = { arn = "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc", id = "00abc" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/compactor-job" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-west-1:123456789012:compactor" }
  }
}

variables {
  name     = "compactor"
  database = { name = "school" }
}

run "names_tell_deployment_account_and_region" {
  assert {
    condition = output.buckets == {
      lake = "compactor-lake-123456789012-eu-west-1"
      code = "compactor-code-123456789012-eu-west-1"
      logs = "compactor-logs-123456789012-eu-west-1"
    }
    error_message = "The buckets' names are global: they carry account and region."
  }

  assert {
    condition     = output.warehouse == "s3://compactor-lake-123456789012-eu-west-1/warehouse" && output.databases == { name = "school", tables = "school" }
    error_message = "The outputs are what goes into compactor.yaml."
  }
}

run "what_costs_money_while_idle_is_not_made" {
  assert {
    condition     = length(aws_emr_cluster.this) + length(aws_mwaa_environment.this) + length(aws_cloudwatch_metric_alarm.this) == 0
    error_message = "Cluster, Airflow and alarms are made only when asked for."
  }

  assert {
    condition     = one(aws_emrserverless_application.this[0].auto_stop_configuration).idle_timeout_minutes == 5 && length(aws_emrserverless_application.this[0].initial_capacity) == 0
    error_message = "The application stops when idle and keeps no workers waiting."
  }
}

run "every_bucket_is_private_encrypted_versioned_and_tls_only" {
  assert {
    condition = alltrue([
      for block in aws_s3_bucket_public_access_block.this :
      block.block_public_acls && block.block_public_policy && block.ignore_public_acls && block.restrict_public_buckets
    ]) && length(aws_s3_bucket_public_access_block.this) == 3
    error_message = "No bucket can be opened to the public."
  }

  assert {
    condition     = alltrue([for each in aws_s3_bucket_versioning.this : one(each.versioning_configuration).status == "Enabled"]) && length(aws_s3_bucket_versioning.this) == 3
    error_message = "Every bucket keeps versions."
  }

  assert {
    condition = {
      for role, each in aws_s3_bucket_server_side_encryption_configuration.this :
      role => one(one(each.rule).apply_server_side_encryption_by_default).sse_algorithm
    } == { lake = "aws:kms", code = "aws:kms", logs = "AES256" }
    error_message = "Lake and code have our key; S3 delivers access logs only to a bucket without one."
  }

  assert {
    condition = alltrue([
      for each in aws_s3_bucket_policy.this : anytrue([
        for statement in jsondecode(each.policy).Statement :
        statement.Effect == "Deny" && statement.Action == "s3:*" && try(statement.Condition.Bool["aws:SecureTransport"], "") == "false"
      ])
    ]) && length(aws_s3_bucket_policy.this) == 3
    error_message = "Every bucket refuses requests without TLS."
  }

  assert {
    condition = alltrue([
      for each in aws_s3_bucket_lifecycle_configuration.this :
      one(each.rule[0].abort_incomplete_multipart_upload).days_after_initiation == 7 && one(each.rule[0].noncurrent_version_expiration).noncurrent_days >= 1
    ])
    error_message = "Uploads left behind and old versions go."
  }
}

run "nothing_the_tool_has_not_condemned_ever_expires" {
  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.this["lake"].rule) == 1 && length([for each in one(aws_s3_bucket_lifecycle_configuration.this["lake"].rule).expiration : each if try(each.days, 0) > 0]) == 0
    error_message = "Without `archive` no rule removes current objects of the lake."
  }
}

run "configurations_of_jobs_expire_as_logs_do" {
  assert {
    condition = {
      for role, each in aws_s3_bucket_lifecycle_configuration.this :
      role => { for rule in each.rule : one(rule.filter).prefix => one(rule.expiration).days if rule.id != "leftovers" }
      } == {
      lake = {}
      code = { "jobs/0.1.0/plans/" = 90 }
      logs = { "access/" = 90, "jobs/" = 90 }
    }
    error_message = "No job reads a plan that is older than its log."
  }
}

run "a_snapshot_is_written_once" {
  assert {
    condition = length([
      for statement in jsondecode(aws_s3_bucket_policy.this["lake"].policy).Statement : statement
      if try(statement.Condition.Null["s3:if-none-match"], "") == "true" && statement.Effect == "Deny"
      && statement.Resource == "arn:aws:s3:::compactor-lake-123456789012-eu-west-1/warehouse/*/_compactor/snapshots/*.json"
    ]) == 1
    error_message = "The lake refuses to overwrite a Snapshot."
  }
}

run "the_job_sees_its_warehouse_and_its_database" {
  assert {
    condition = flatten([
      for statement in jsondecode(output.job_policies.storage).Statement : statement.Resource if contains(flatten([statement.Action]), "s3:PutObject")
    ]) == ["arn:aws:s3:::compactor-lake-123456789012-eu-west-1/warehouse/*"]
    error_message = "A job writes below the warehouse and nowhere else."
  }

  assert {
    condition = alltrue([
      for statement in jsondecode(output.job_policies.catalog).Statement : alltrue([
        for resource in statement.Resource : !strcontains(resource, ":table/") || startswith(resource, "arn:aws:glue:eu-west-1:123456789012:table/school/")
      ])
    ])
    error_message = "A job reaches tables of its own database only."
  }

  assert {
    condition = alltrue([
      for policy in [output.job_policies.storage, output.job_policies.catalog] : alltrue([
        for statement in jsondecode(policy).Statement : !contains(flatten([statement.Resource]), "*") && !anytrue([for action in flatten([statement.Action]) : strcontains(action, "*")])
      ])
    ])
    error_message = "No right is given on everything, none by a wildcard of actions."
  }

  assert {
    condition     = jsondecode(aws_iam_role.job[0].assume_role_policy).Statement[0].Condition.ArnLike["aws:SourceArn"] == "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc"
    error_message = "Only this application's jobs take the role."
  }

  assert {
    condition     = alltrue([for policy in aws_iam_role_policy.job : length(policy.policy) < 10240])
    error_message = "IAM takes 10,240 characters of inline policies."
  }
}

run "spark_may_make_the_database_default_and_no_other" {
  assert {
    condition = [for statement in jsondecode(output.job_policies.catalog).Statement : statement.Resource if contains(statement.Action, "glue:CreateDatabase")] == [
      ["arn:aws:glue:eu-west-1:123456789012:catalog", "arn:aws:glue:eu-west-1:123456789012:database/default"]
    ]
    error_message = "In a new account it is missing, and the first session makes it."
  }
}

run "a_failed_job_is_told" {
  assert {
    condition = jsondecode(aws_cloudwatch_event_rule.failed_job["job"].event_pattern) == {
      source      = ["aws.emr-serverless"]
      detail-type = ["EMR Serverless Job Run State Change"]
      detail      = { applicationId = ["00abc"], state = ["FAILED"] }
    } && aws_cloudwatch_event_target.failed_job["job"].arn == output.topic_arn
    error_message = "The event of a failed job goes to the topic."
  }
}
