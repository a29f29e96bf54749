# Airflow as a service. In addition to the caller's permissions it has those that Amazon documents for an execution role.

locals {
  mwaa_package = var.mwaa == null ? null : var.mwaa.package

  mwaa_files = { requirements = "requirements.txt", plugins = "plugins.zip", startup_script = "startup.sh" }

  # What MWAA installs: files that the module uploads, or objects that exist already. MWAA needs the version of each object.
  mwaa_objects = local.mwaa_package != null ? {
    for part, object in aws_s3_object.mwaa : part => { key = object.key, version = object.version_id }
    } : {
    requirements   = try(var.mwaa.requirements, null)
    plugins        = try(var.mwaa.plugins, null)
    startup_script = try(var.mwaa.startup_script, null)
  }
}

resource "aws_s3_object" "mwaa" {
  for_each = { for part, file in local.mwaa_files : part => file if local.mwaa_package != null }

  bucket      = aws_s3_bucket.this["code"].id
  key         = "mwaa/${each.value}"
  source      = "${local.mwaa_package}/${each.value}"
  source_hash = filemd5("${local.mwaa_package}/${each.value}")
  tags        = var.tags

  # Without versions the object would have none that MWAA can name.
  depends_on = [aws_s3_bucket_versioning.this, aws_s3_bucket_server_side_encryption_configuration.this]
}

resource "aws_iam_role" "mwaa" {
  count = var.mwaa == null ? 0 : 1

  name                 = local.role_names.mwaa
  path                 = var.roles.path
  permissions_boundary = var.roles.permissions_boundary_arn
  description          = "Permissions of the Airflow environment ${var.name}"
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = ["airflow.${local.dns}", "airflow-env.${local.dns}"] }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "mwaa" {
  count = var.mwaa == null ? 0 : 1

  name = "environment"
  role = aws_iam_role.mwaa[0].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = "airflow:PublishMetrics"
        Resource = "arn:${local.partition}:airflow:${local.region}:${local.account}:environment/${var.name}"
      },
      {
        Effect   = "Allow"
        Action   = ["s3:GetObject*", "s3:GetBucket*", "s3:List*"]
        Resource = [local.code_arn, "${local.code_arn}/*"]
      },
      { Effect = "Allow", Action = "s3:GetAccountPublicAccessBlock", Resource = "*" },
      { Effect = "Allow", Action = "logs:DescribeLogGroups", Resource = "*" },
      {
        Effect = "Allow"
        Action = [
          "logs:CreateLogGroup",
          "logs:CreateLogStream",
          "logs:GetLogEvents",
          "logs:GetLogGroupFields",
          "logs:GetLogRecord",
          "logs:GetQueryResults",
          "logs:PutLogEvents",
        ]
        Resource = "arn:${local.partition}:logs:${local.region}:${local.account}:log-group:airflow-${var.name}-*"
      },
      {
        Effect    = "Allow"
        Action    = "cloudwatch:PutMetricData"
        Resource  = "*"
        Condition = { StringEquals = { "cloudwatch:namespace" = "AmazonMWAA" } }
      },
      {
        # The queues belong to an account of AWS.
        Effect = "Allow"
        Action = [
          "sqs:ChangeMessageVisibility",
          "sqs:DeleteMessage",
          "sqs:GetQueueAttributes",
          "sqs:GetQueueUrl",
          "sqs:ReceiveMessage",
          "sqs:SendMessage",
        ]
        Resource = "arn:${local.partition}:sqs:${local.region}:*:airflow-celery-*"
      },
      {
        Effect   = "Allow"
        Action   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*"]
        Resource = local.kms_key_arn
        Condition = {
          StringEquals = { "kms:ViaService" = ["sqs.${local.region}.${local.dns}", "s3.${local.region}.${local.dns}"] }
        }
      },
    ]
  })
}

resource "aws_mwaa_environment" "this" {
  count = var.mwaa == null ? 0 : 1

  name                             = var.name
  airflow_version                  = var.mwaa.airflow_version
  environment_class                = var.mwaa.environment_class
  min_workers                      = var.mwaa.min_workers
  max_workers                      = var.mwaa.max_workers
  execution_role_arn               = aws_iam_role.mwaa[0].arn
  kms_key                          = local.kms_key_arn
  source_bucket_arn                = aws_s3_bucket.this["code"].arn
  dag_s3_path                      = "dags/"
  requirements_s3_path             = try(local.mwaa_objects.requirements.key, null)
  requirements_s3_object_version   = try(local.mwaa_objects.requirements.version, null)
  plugins_s3_path                  = try(local.mwaa_objects.plugins.key, null)
  plugins_s3_object_version        = try(local.mwaa_objects.plugins.version, null)
  startup_script_s3_path           = try(local.mwaa_objects.startup_script.key, null)
  startup_script_s3_object_version = try(local.mwaa_objects.startup_script.version, null)
  webserver_access_mode            = var.mwaa.webserver_access_mode
  weekly_maintenance_window_start  = var.mwaa.maintenance_start
  airflow_configuration_options    = var.mwaa.options
  tags                             = var.tags

  network_configuration {
    subnet_ids         = var.mwaa.subnet_ids
    security_group_ids = var.mwaa.security_group_ids
  }

  logging_configuration {
    dag_processing_logs {
      enabled   = true
      log_level = "WARNING"
    }

    scheduler_logs {
      enabled   = true
      log_level = "WARNING"
    }

    task_logs {
      enabled   = true
      log_level = "INFO"
    }

    webserver_logs {
      enabled   = true
      log_level = "WARNING"
    }

    worker_logs {
      enabled   = true
      log_level = "WARNING"
    }
  }

  # MWAA checks bucket and role before it starts.
  depends_on = [
    aws_cloudwatch_log_group.mwaa,
    aws_iam_role_policy.mwaa,
    aws_s3_bucket_public_access_block.this,
    aws_s3_bucket_versioning.this,
  ]
}
