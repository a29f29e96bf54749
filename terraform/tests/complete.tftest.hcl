# Everything at once: landing elsewhere, archives, cluster, Airflow, callers, alarms.

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
  mock_resource "aws_emrserverless_application" {
    defaults = { arn = "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc", id = "00abc" }
  }
  mock_resource "aws_emr_cluster" {
    defaults = { arn = "arn:aws:elasticmapreduce:eu-west-1:123456789012:cluster/j-1", id = "j-1" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/some" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-west-1:123456789012:compactor" }
  }
}

variables {
  name     = "compactor"
  tags     = { team = "data" }
  kms_key  = { arn = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555" }
  database = { name = "school", tables = { name = "school_internal" } }
  lake     = { warehouse = "cdc" }
  roles    = { path = "/data/", permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary", names = { job = "cdc-job" } }
  landing = [
    { bucket = "kafka-landing", prefix = "topics", kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/99999999-2222-3333-4444-555555555555" },
    { bucket = "kafka-landing", prefix = "dms" },
    { prefix = "incoming" },
  ]
  archive       = { tables = ["orders", "payments"], transition_days = 60, expiration_days = 730 }
  callers       = { trusted = { arns = ["arn:aws:iam::123456789012:role/operators"] }, roles = { workers = "airflow-workers" } }
  notifications = { emails = ["data@example.com"] }
  alarms        = { freshness_minutes_max = 180, tables = { orders = 90 } }
  cluster = {
    subnet_id                 = "subnet-a"
    primary_security_group_id = "sg-1"
    core_security_group_id    = "sg-2"
    service_security_group_id = "sg-3"
  }
  mwaa = { subnet_ids = ["subnet-a", "subnet-b"], security_group_ids = ["sg-4"], package = "./tests/package" }
  vpc_endpoints = {
    vpc_id             = "vpc-1"
    route_table_ids    = ["rtb-1"]
    subnet_ids         = ["subnet-a", "subnet-b"]
    security_group_ids = ["sg-5"]
  }
  lake_formation = { readers = { analysts = "arn:aws:iam::123456789012:role/analysts" }, tables = ["orders"], register = true }
}

run "a_key_that_exists_is_taken" {
  assert {
    condition     = length(aws_kms_key.this) == 0 && output.kms_key_arn == var.kms_key.arn
    error_message = "No second key."
  }
}

run "landing_is_read_and_emptied_and_never_written" {
  assert {
    condition = {
      for statement in jsondecode(output.job_policies.storage).Statement : jsonencode(statement.Resource) => statement.Action
      if contains(flatten([statement.Action]), "s3:DeleteObject") && !contains(flatten([statement.Action]), "s3:PutObject")
      } == {
      jsonencode(["arn:aws:s3:::compactor-lake-123456789012-eu-west-1/incoming/*"])           = ["s3:GetObject", "s3:DeleteObject"]
      jsonencode(["arn:aws:s3:::kafka-landing/topics/*", "arn:aws:s3:::kafka-landing/dms/*"]) = ["s3:GetObject", "s3:DeleteObject"]
    }
    error_message = "Landing may be read and deleted from, by prefix."
  }

  assert {
    condition = {
      for statement in jsondecode(output.job_policies.storage).Statement : trim(jsonencode(statement.Resource), "\"") => statement.Condition.StringLikeIfExists["s3:prefix"]
      if statement.Action == ["s3:ListBucket"] && !strcontains(jsonencode(statement.Resource), output.buckets.code)
      } == {
      "arn:aws:s3:::compactor-lake-123456789012-eu-west-1" = ["cdc", "cdc/*", "incoming", "incoming/*"]
      "arn:aws:s3:::kafka-landing"                         = ["topics", "topics/*", "dms", "dms/*"]
    }
    error_message = "Listing is bounded by the same prefixes."
  }

  assert {
    condition = toset(flatten([
      for statement in jsondecode(output.job_policies.storage).Statement : statement.Resource if contains(flatten([statement.Action]), "kms:Decrypt")
    ])) == toset([var.kms_key.arn, "arn:aws:kms:eu-west-1:123456789012:key/99999999-2222-3333-4444-555555555555"])
    error_message = "The landing bucket's key may be used as well."
  }
}

run "jobs_land_files_where_they_may" {
  variables {
    landing = [{ bucket = "kafka-landing", prefix = "topics", write = true }, { prefix = "incoming" }]
  }

  assert {
    condition = [for statement in jsondecode(output.job_policies.storage).Statement : statement.Resource if statement.Action == ["s3:PutObject"]] == [
      ["arn:aws:s3:::compactor-lake-123456789012-eu-west-1/incoming/_compactor/*", "arn:aws:s3:::compactor-lake-123456789012-eu-west-1/incoming/*/_compactor/*"],
      ["arn:aws:s3:::kafka-landing/topics/_compactor/*", "arn:aws:s3:::kafka-landing/topics/*/_compactor/*"],
      ["arn:aws:s3:::kafka-landing/topics/*"],
    ]
    error_message = "`ingest` and `reconcile --repair` write landed files."
  }
}

run "archives_move_and_go_and_nothing_else_does" {
  assert {
    condition = {
      for rule in aws_s3_bucket_lifecycle_configuration.this["lake"].rule : rule.id => [one(rule.filter).prefix, one(rule.transition).days, one(rule.transition).storage_class, one(rule.expiration).days]
      if rule.id != "leftovers"
      } == {
      archive-orders   = ["cdc/orders/archive/", 60, "GLACIER_IR", 730]
      archive-payments = ["cdc/payments/archive/", 60, "GLACIER_IR", 730]
    }
    error_message = "One rule a table, on its archive only."
  }
}

run "both_databases_are_made_and_reached" {
  assert {
    condition     = { for key, each in aws_glue_catalog_database.this : key => each.name } == { views = "school", tables = "school_internal" }
    error_message = "Views and tables may have databases of their own."
  }

  assert {
    condition = alltrue([
      for name in ["school", "school_internal"] : strcontains(output.job_policies.catalog, "arn:aws:glue:eu-west-1:123456789012:table/${name}/*")
    ])
    error_message = "Jobs reach both."
  }
}

run "jobs_have_the_same_rights_wherever_they_run" {
  assert {
    condition     = { for key, policy in aws_iam_role_policy.job : key => policy.policy } == { for key, policy in aws_iam_role_policy.cluster_instance : key => policy.policy }
    error_message = "The cluster's instances and the serverless role hold the same policies."
  }
}

run "callers_start_watch_and_cancel" {
  assert {
    condition     = toset(keys(aws_iam_role_policy.caller)) == toset(["workers", "caller", "mwaa"]) && aws_iam_role_policy.caller["workers"].role == "airflow-workers"
    error_message = "The caller role, the roles named and Airflow get the caller's rights."
  }

  assert {
    condition     = jsondecode(aws_iam_role.caller[0].assume_role_policy).Statement[0].Principal.AWS == ["arn:aws:iam::123456789012:role/operators"]
    error_message = "Those who were named may take the caller role."
  }

  assert {
    condition = toset(flatten([
      for statement in jsondecode(output.caller_policy).Statement : statement.Resource if anytrue([for action in flatten([statement.Action]) : startswith(action, "emr-serverless:")])
    ])) == toset(["arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc", "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00abc/jobruns/*"])
    error_message = "This application and its jobs, no other."
  }

  assert {
    condition     = length([for statement in jsondecode(output.caller_policy).Statement : statement if statement.Action == ["iam:PassRole"] && try(statement.Condition.StringEquals["iam:PassedToService"], "") == "emr-serverless.amazonaws.com"]) == 1
    error_message = "The job's role is passed to EMR Serverless only."
  }

  assert {
    condition = toset(flatten([
      for statement in jsondecode(output.caller_policy).Statement : statement.Resource if contains(flatten([statement.Action]), "s3:GetObject")
    ])) == toset(["arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc/*/_compactor/*", "arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc/*/quarantine/*.reason.json", "arn:aws:s3:::compactor-logs-123456789012-eu-west-1/jobs/reports/*"])
    error_message = "Callers read Snapshots and the jobs' reports, not data."
  }

  assert {
    condition     = !strcontains(output.caller_policy, "/tables.d/") && !strcontains(output.caller_policy, var.landing[0].kms_key_arn)
    error_message = "Without `discover` they add no tables."
  }
}

run "callers_add_tables_where_they_may" {
  variables {
    callers = { roles = { workers = "airflow-workers" }, discover = true }
  }

  assert {
    condition = {
      for statement in jsondecode(output.caller_policy).Statement : jsonencode(statement.Action) => statement.Resource...
      if strcontains(jsonencode(statement.Resource), "/tables.d/") || strcontains(jsonencode(statement.Resource), "/topics/")
      } == {
      jsonencode(["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]) = ["arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc/_compactor/tables.d/*"]
      jsonencode(["s3:GetObject"])                                    = [["arn:aws:s3:::kafka-landing/topics/*", "arn:aws:s3:::kafka-landing/dms/*"]]
    }
    error_message = "They read samples of what landed and write the configurations of new tables."
  }

  assert {
    condition     = [for statement in jsondecode(output.caller_policy).Statement : statement.Action if strcontains(jsonencode(statement.Resource), var.landing[0].kms_key_arn)] == [["kms:Decrypt"]]
    error_message = "Samples may have a key of their own, which callers write nothing with."
  }
}

run "alarms_speak_when_nobody_measures" {
  assert {
    condition     = { for key, alarm in aws_cloudwatch_metric_alarm.this : key => alarm.treat_missing_data } == { failed-runs = "notBreaching", freshness = "breaching", backlog = "missing", quarantine = "missing" }
    error_message = "Silence is a failure of freshness, and of nothing else."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["freshness"].threshold == 10800 && aws_cloudwatch_metric_alarm.table["orders"].threshold == 5400
    error_message = "Minutes are made seconds."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.table["orders"].dimensions == tomap({ Deployment = "compactor", Table = "orders" }) && aws_cloudwatch_metric_alarm.table["orders"].treat_missing_data == "breaching"
    error_message = "A named table has an alarm of its own."
  }

  assert {
    condition     = alltrue([for alarm in concat(values(aws_cloudwatch_metric_alarm.this), values(aws_cloudwatch_metric_alarm.table)) : alarm.alarm_actions == toset([output.topic_arn]) && alarm.period % 60 == 0])
    error_message = "Every alarm reaches the topic."
  }

  assert {
    condition = length([
      for statement in jsondecode(output.job_policies.reporting).Statement : statement
      if statement.Action == ["cloudwatch:PutMetricData"] && try(statement.Condition.StringEquals["cloudwatch:namespace"], "") == "Compactor"
    ]) == 1
    error_message = "Metrics may be put into our namespace only."
  }
}

run "airflow_has_its_log_groups_bounded" {
  assert {
    condition     = toset([for group in aws_cloudwatch_log_group.mwaa : group.name]) == toset([for part in ["DAGProcessing", "Scheduler", "Task", "WebServer", "Worker"] : "airflow-compactor-${part}"]) && alltrue([for group in aws_cloudwatch_log_group.mwaa : group.retention_in_days == 90])
    error_message = "The groups MWAA writes to exist, with a retention."
  }
}

run "roles_follow_the_rules_of_the_account" {
  assert {
    condition = alltrue([
      for role in [aws_iam_role.job[0], aws_iam_role.caller[0], aws_iam_role.mwaa[0], aws_iam_role.cluster_service[0], aws_iam_role.cluster_instance[0]] :
      role.path == "/data/" && role.permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"
    ])
    error_message = "Every role has the path and the permissions boundary."
  }

  assert {
    condition     = [aws_iam_role.job[0].name, aws_iam_role.caller[0].name] == ["cdc-job", "compactor-caller"]
    error_message = "A role has the name that was given, others their own."
  }
}

run "a_failed_step_is_told_as_a_failed_job_is" {
  assert {
    condition = {
      for key, rule in aws_cloudwatch_event_rule.failed_job : key => [jsondecode(rule.event_pattern).source, jsondecode(rule.event_pattern)["detail-type"], jsondecode(rule.event_pattern).detail.state]
      } == {
      job  = [["aws.emr-serverless"], ["EMR Serverless Job Run State Change"], ["FAILED"]]
      step = [["aws.emr"], ["EMR Step Status Change"], ["FAILED"]]
    }
    error_message = "Both kinds of EMR send an event, and both events have a rule."
  }

  assert {
    condition     = alltrue([for target in aws_cloudwatch_event_target.failed_job : target.arn == output.topic_arn && strcontains(one(target.input_transformer).input_template, " <name> (<id>) ")])
    error_message = "The message has the name of the job, which begins with the table."
  }
}

run "airflow_installs_what_compactor_package_wrote" {
  assert {
    condition = {
      for part, object in aws_s3_object.mwaa : part => [object.key, object.source]
      } == {
      requirements   = ["mwaa/requirements.txt", "./tests/package/requirements.txt"]
      plugins        = ["mwaa/plugins.zip", "./tests/package/plugins.zip"]
      startup_script = ["mwaa/startup.sh", "./tests/package/startup.sh"]
    }
    error_message = "The three files are uploaded."
  }

  assert {
    condition = (
      aws_mwaa_environment.this[0].requirements_s3_path == "mwaa/requirements.txt"
      && aws_mwaa_environment.this[0].plugins_s3_path == "mwaa/plugins.zip"
      && aws_mwaa_environment.this[0].startup_script_s3_path == "mwaa/startup.sh"
      && aws_mwaa_environment.this[0].plugins_s3_object_version == aws_s3_object.mwaa["plugins"].version_id
    )
    error_message = "And used, in the version that was uploaded."
  }
}

run "private_subnets_reach_aws_without_nat" {
  assert {
    condition     = aws_vpc_endpoint.s3[0].vpc_endpoint_type == "Gateway" && toset(keys(aws_vpc_endpoint.this)) == toset(["glue", "kms", "logs", "monitoring", "secretsmanager", "sns", "sts"])
    error_message = "S3 has a gateway endpoint, the others have interfaces."
  }
}

run "lake_formation_grants_what_jobs_and_readers_need" {
  assert {
    condition     = toset(keys(aws_lakeformation_permissions.tables)) == toset(["job-views", "job-tables", "cluster-views", "cluster-tables"])
    error_message = "Jobs of both kinds work on both databases."
  }

  assert {
    condition     = { for job, grant in aws_lakeformation_permissions.default : job => [one(grant.database).name, grant.permissions] } == { for job in ["job", "cluster"] : job => ["default", toset(["DESCRIBE"])] }
    error_message = "Every session of Spark looks at the database default."
  }

  assert {
    condition     = alltrue([for grant in aws_lakeformation_permissions.tables : !contains(grant.permissions, "DROP")]) && alltrue([for grant in aws_lakeformation_permissions.reader_tables : grant.permissions == toset(["DESCRIBE", "SELECT"])])
    error_message = "Jobs drop nothing; readers read."
  }

  assert {
    condition = { for grant in aws_lakeformation_permissions.reader_tables : grant.table[0].name => grant.table[0].database_name } == {
      orders = "school", orders_athena = "school", orders_base = "school_internal", orders_delta = "school_internal"
    }
    error_message = "Readers get the views and what these read, in both databases; never orders_incremental, which has protected columns."
  }

  assert {
    condition     = aws_lakeformation_resource.lake[0].arn == "arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc" && toset(keys(aws_lakeformation_permissions.location)) == toset(["job", "cluster"])
    error_message = "Only the warehouse is registered, and jobs may create tables in it."
  }
}

run "two_grants_of_one_database_are_equal" {
  variables {
    database = { name = "default", create = false }
  }

  assert {
    condition     = alltrue([for job, grant in aws_lakeformation_permissions.default : grant.permissions == aws_lakeformation_permissions.database["${job}-views"].permissions])
    error_message = "Else each would undo the other."
  }
}

run "readers_of_iceberg_tables_get_their_files_and_no_raw_ones" {
  assert {
    condition = toset(flatten([for each in jsondecode(output.iceberg_reader_policy).Statement : [
      for action in each.Action : [for resource in flatten([each.Resource]) : "${action} ${replace(resource, "/.*:key/.*/", "key")}"]
      ]])) == toset([
      "s3:GetObject arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc/*/_iceberg/*",
      "s3:GetObject arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc/*/_iceberg_current/*",
      "s3:GetObject arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc/*/base/*",
      "s3:GetObject arn:aws:s3:::compactor-lake-123456789012-eu-west-1/cdc/*/delta/*",
      "s3:ListBucket arn:aws:s3:::compactor-lake-123456789012-eu-west-1",
      "kms:Decrypt key",
    ])
    error_message = "They read metadata, base and Delta, and neither landing nor archives nor what runs keep of them."
  }

  assert {
    condition     = jsondecode(output.iceberg_reader_policy).Statement[1].Condition == { StringLike = { "s3:prefix" = ["cdc/*/_iceberg/*", "cdc/*/_iceberg_current/*"] } }
    error_message = "They list metadata only."
  }
}

run "the_output_is_the_beginning_of_compactor_yaml" {
  # tests/terraform/test_module.py loads the file as a configuration.
  assert {
    condition     = yamldecode(output.compactor_yaml) == yamldecode(file("./tests/compactor.yaml"))
    error_message = "Expected the content of tests/compactor.yaml."
  }
}
