# Log groups, the topic and its messages: failed jobs by EMR's own event, everything else by alarms on the metrics in docs/aws.md.

locals {
  topic_arn = var.notifications.topic == null ? one(aws_sns_topic.this[*].arn) : var.notifications.topic.arn

  # The namespace of metrics; null where nothing shows them.
  namespace = var.alarms != null ? var.alarms.namespace : var.dashboard ? "Compactor" : null

  # Each metric has the dimension Deployment; Freshness is also sent by Table.
  deployment = { Deployment = var.name }

  # Where jobs run → EMR's own event of a failed one, and the message about it.
  failed_jobs = merge(
    { for application in aws_emrserverless_application.this : "job" => {
      description = "Jobs of ${var.name} on EMR Serverless that failed"
      pattern = {
        source      = ["aws.emr-serverless"]
        detail-type = ["EMR Serverless Job Run State Change"]
        detail      = { applicationId = [application.id], state = ["FAILED"] }
      }
      paths = { name = "$.detail.jobRunName", id = "$.detail.jobRunId" }
      text  = "${var.name}: job <name> (<id>) on EMR Serverless failed. Its log: log group /aws/emr-serverless/${var.name}, and s3://${local.logs_bucket}/jobs/."
    } },
    { for cluster in aws_emr_cluster.this : "step" => {
      description = "Steps of ${var.name} on the EMR cluster that failed"
      pattern = {
        source      = ["aws.emr"]
        detail-type = ["EMR Step Status Change"]
        detail      = { clusterId = [cluster.id], state = ["FAILED"] }
      }
      paths = { name = "$.detail.name", id = "$.detail.stepId" }
      text  = "${var.name}: step <name> (<id>) on the EMR cluster failed. Its log: s3://${local.logs_bucket}/jobs/cluster/."
    } },
  )

  # name → metric, statistic over a period, threshold, and treatment of missing data.
  alarms = var.alarms == null ? {} : {
    failed-runs = {
      metric      = "FailedRuns"
      statistic   = "Sum"
      fine        = var.alarms.failed_runs_max
      periods     = 1
      silence     = "notBreaching"
      description = "A table's run failed. `compactor status` and the task's log name the table and the error."
    }
    freshness = {
      metric      = "FreshnessSeconds"
      statistic   = "Maximum"
      fine        = var.alarms.freshness_minutes_max * 60
      periods     = 2
      silence     = "breaching"
      description = "The newest ingested change of a table is too old, or there is no data: the sink, the schedule or the runs have stopped."
    }
    backlog = {
      metric      = "BacklogSeconds"
      statistic   = "Maximum"
      fine        = var.alarms.backlog_minutes_max * 60
      periods     = 2
      silence     = "missing"
      description = "A landed file has waited too long: runs fail, or are slower than new files arrive."
    }
    quarantine = {
      metric      = "QuarantinedFiles"
      statistic   = "Maximum"
      fine        = var.alarms.quarantined_files_max
      periods     = 1
      silence     = "missing"
      description = "Files could not be read and are in quarantine."
    }
  }
}

resource "aws_cloudwatch_log_group" "jobs" {
  count = var.serverless == null ? 0 : 1

  name              = "/aws/emr-serverless/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = local.kms_key_arn
  tags              = var.tags
}

# MWAA would create these itself, without an expiry.
resource "aws_cloudwatch_log_group" "mwaa" {
  for_each = toset(var.mwaa == null ? [] : ["DAGProcessing", "Scheduler", "Task", "WebServer", "Worker"])

  name              = "airflow-${var.name}-${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = local.kms_key_arn
  tags              = var.tags
}

resource "aws_sns_topic" "this" {
  count = var.notifications.topic == null ? 1 : 0

  name              = var.name
  kms_master_key_id = local.kms_key_arn
  tags              = var.tags
}

resource "aws_sns_topic_policy" "this" {
  count = var.notifications.topic == null ? 1 : 0

  arn = aws_sns_topic.this[0].arn

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "AlarmsAndEventsOfThisAccount"
      Effect    = "Allow"
      Principal = { Service = ["cloudwatch.${local.dns}", "events.${local.dns}"] }
      Action    = "sns:Publish"
      Resource  = aws_sns_topic.this[0].arn
      Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
    }]
  })
}

resource "aws_sns_topic_subscription" "email" {
  for_each = var.notifications.emails

  topic_arn = local.topic_arn
  protocol  = "email"
  endpoint  = each.key
}

# EMR sends these events even if a job died before it could send metrics. The job's name begins with the table or group.
resource "aws_cloudwatch_event_rule" "failed_job" {
  for_each = local.failed_jobs

  name          = "${var.name}-failed-${each.key}"
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "failed_job" {
  for_each = local.failed_jobs

  rule = aws_cloudwatch_event_rule.failed_job[each.key].name
  arn  = local.topic_arn

  input_transformer {
    input_paths    = each.value.paths
    input_template = "\"${each.value.text}\"" # jsonencode would write < and > as escapes
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = var.alarms.namespace
  metric_name         = each.value.metric
  dimensions          = local.deployment
  statistic           = each.value.statistic
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.fine
  period              = var.alarms.period_minutes * 60
  evaluation_periods  = each.value.periods
  datapoints_to_alarm = each.value.periods
  treat_missing_data  = each.value.silence
  alarm_actions       = [local.topic_arn]
  ok_actions          = var.alarms.notify_when_fine_again ? [local.topic_arn] : []
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "table" {
  for_each = var.alarms == null ? {} : var.alarms.tables

  alarm_name          = "${var.name}-freshness-${each.key}"
  alarm_description   = "The newest ingested change of ${each.key} is older than ${each.value} minutes, or there is no data."
  namespace           = var.alarms.namespace
  metric_name         = local.alarms.freshness.metric
  dimensions          = merge(local.deployment, { Table = each.key })
  statistic           = local.alarms.freshness.statistic
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value * 60
  period              = var.alarms.period_minutes * 60
  evaluation_periods  = local.alarms.freshness.periods
  datapoints_to_alarm = local.alarms.freshness.periods
  treat_missing_data  = local.alarms.freshness.silence
  alarm_actions       = [local.topic_arn]
  ok_actions          = var.alarms.notify_when_fine_again ? [local.topic_arn] : []
  tags                = var.tags
}

# The body is made from the list of measures (compactor/core/results/measures.py): `make docs`.
resource "aws_cloudwatch_dashboard" "this" {
  count = var.dashboard ? 1 : 0

  dashboard_name = var.name

  dashboard_body = templatefile("${path.module}/dashboard.json.tftpl", {
    namespace  = local.namespace
    deployment = var.name
    region     = local.region
  })
}
