# Names, the key, the Glue databases, the EMR Serverless application. Buckets are in buckets.tf, permissions in iam.tf.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.region
  dns       = data.aws_partition.current.dns_suffix

  lake_bucket = coalesce(var.lake.bucket, "${var.name}-lake-${local.account}-${local.region}")
  code_bucket = coalesce(var.code_bucket, "${var.name}-code-${local.account}-${local.region}")
  logs_bucket = coalesce(var.logs_bucket, "${var.name}-logs-${local.account}-${local.region}")

  # ARNs are composed, not read, so that they are the same for new and for existing resources.
  lake_arn  = "arn:${local.partition}:s3:::${local.lake_bucket}"
  code_arn  = "arn:${local.partition}:s3:::${local.code_bucket}"
  logs_arn  = "arn:${local.partition}:s3:::${local.logs_bucket}"
  warehouse = "s3://${local.lake_bucket}/${var.lake.warehouse}"

  kms_key_arn = var.kms_key == null ? one(aws_kms_key.this[*].arn) : var.kms_key.arn

  archive_keys     = { for name, key in var.archive_keys : name => key if key.existing == null }
  archive_key_arns = { for name, key in var.archive_keys : name => key.existing == null ? aws_kms_key.archive[name].arn : key.existing.arn }

  # The keys of every `count` and `for_each` are known at plan time, even where names and ARNs are not: they depend on whether an object is given,
  # not on what it contains.
  databases = merge({ views = var.database.name }, var.database.tables == null ? {} : { tables = var.database.tables.name })

  role_names = {
    job          = coalesce(var.roles.names.job, "${var.name}-job")
    caller       = coalesce(var.roles.names.caller, "${var.name}-caller")
    mwaa         = coalesce(var.roles.names.mwaa, "${var.name}-mwaa")
    emr_service  = coalesce(var.roles.names.emr_service, "${var.name}-emr-service")
    emr_instance = coalesce(var.roles.names.emr_instance, "${var.name}-emr-instance")
  }
}

resource "aws_kms_key" "this" {
  count = var.kms_key == null ? 1 : 0

  description             = "${var.name}: lake, code, log groups, notifications"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = var.tags

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat([
      {
        Sid       = "RightsAreGivenByIam"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "LogGroupsOfThisDeployment"
        Effect    = "Allow"
        Principal = { Service = "logs.${local.region}.${local.dns}" }
        Action    = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
        Resource  = "*"
        Condition = {
          ArnLike = {
            "kms:EncryptionContext:aws:logs:arn" = [
              for group in ["/aws/emr-serverless/${var.name}", "airflow-${var.name}-*"] :
              "arn:${local.partition}:logs:${local.region}:${local.account}:log-group:${group}"
            ]
          }
        }
      },
      {
        # Without this an alarm's message to an encrypted topic is lost silently.
        Sid       = "AlarmsAndEventsReachTheTopic"
        Effect    = "Allow"
        Principal = { Service = ["cloudwatch.${local.dns}", "events.${local.dns}"] }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey*"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
      },
    ])
  })
}

resource "aws_kms_alias" "this" {
  count = var.kms_key == null ? 1 : 0

  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this[0].key_id
}

# Raw files. The account administers the keys, and only jobs use them: unlike the lake's key, no policy in IAM can open them to others.
resource "aws_kms_key" "archive" {
  for_each = local.archive_keys

  description             = "${var.name}: raw files, ${each.key}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = var.tags

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "TheAccountAdministersIt"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account}:root" }
        Action = [
          "kms:CancelKeyDeletion", "kms:CreateAlias", "kms:DeleteAlias", "kms:DescribeKey", "kms:DisableKey", "kms:DisableKeyRotation", "kms:EnableKey",
          "kms:EnableKeyRotation", "kms:GetKeyPolicy", "kms:GetKeyRotationStatus", "kms:ListAliases", "kms:ListGrants", "kms:ListKeyPolicies",
          "kms:ListKeyRotations", "kms:ListResourceTags", "kms:PutKeyPolicy", "kms:RevokeGrant", "kms:RotateKeyOnDemand", "kms:ScheduleKeyDeletion",
          "kms:TagResource", "kms:UntagResource", "kms:UpdateAlias", "kms:UpdateKeyDescription",
        ]
        Resource = "*"
      },
      {
        Sid       = "OnlyJobsUseIt"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account}:root" }
        Action    = local.job_actions.key
        Resource  = "*"
        Condition = { ArnEquals = { "aws:PrincipalArn" = concat(aws_iam_role.job[*].arn, aws_iam_role.cluster_instance[*].arn, each.value.role_arns) } }
      },
    ]
  })
}

resource "aws_kms_alias" "archive" {
  for_each = local.archive_keys

  name          = "alias/${var.name}-archive-${each.key}"
  target_key_id = aws_kms_key.archive[each.key].key_id
}

resource "aws_glue_catalog_database" "this" {
  for_each = { for role, name in local.databases : role => name if var.database.create }

  name         = each.value
  description  = "Tables that ${var.name} keeps up to date from change data capture files"
  location_uri = local.warehouse
  tags         = var.tags
}

resource "aws_emrserverless_application" "this" {
  count = var.serverless == null ? 0 : 1

  name          = var.name
  type          = "spark"
  release_label = var.serverless.release_label
  architecture  = var.serverless.architecture
  tags          = var.tags

  # Starts with the first job and stops when idle: there are no costs between runs.
  auto_start_configuration {
    enabled = true
  }

  auto_stop_configuration {
    enabled              = true
    idle_timeout_minutes = var.serverless.idle_timeout_minutes
  }

  maximum_capacity {
    cpu    = var.serverless.maximum_cpu
    memory = var.serverless.maximum_memory
    disk   = var.serverless.maximum_disk
  }

  scheduler_configuration {
    max_concurrent_runs   = var.serverless.max_concurrent_runs
    queue_timeout_minutes = var.serverless.queue_timeout_minutes
  }

  monitoring_configuration {
    s3_monitoring_configuration {
      log_uri = "s3://${local.logs_bucket}/jobs/"
    }

    cloudwatch_logging_configuration {
      enabled        = true
      log_group_name = aws_cloudwatch_log_group.jobs[0].name

      log_types {
        name   = "SPARK_DRIVER"
        values = ["STDOUT", "STDERR"]
      }
    }

    managed_persistence_monitoring_configuration {
      enabled = var.serverless.spark_ui
    }
  }

  # No metastore in a runtime_configuration: each job says whether it uses Glue or a metastore service.

  dynamic "network_configuration" {
    for_each = length(var.serverless.subnet_ids) > 0 ? [var.serverless] : []

    content {
      subnet_ids         = network_configuration.value.subnet_ids
      security_group_ids = network_configuration.value.security_group_ids
    }
  }
}
