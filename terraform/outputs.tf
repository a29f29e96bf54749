output "warehouse" {
  description = "`warehouse:` in compactor.yaml."
  value       = local.warehouse
}

output "compactor_yaml" {
  description = "The first part of compactor.yaml: warehouse, catalog, where EMR jobs are sent, metrics. Add `tables:`."
  value       = yamlencode(local.compactor_yaml)
}

output "buckets" {
  description = "Names of the lake, code and logs buckets."
  value       = { lake = local.lake_bucket, code = local.code_bucket, logs = local.logs_bucket }
}

output "databases" {
  description = "Names of the Glue databases: `name` for the views, `tables` for base, Delta and incremental tables."
  value       = { name = var.database.name, tables = lookup(local.databases, "tables", var.database.name) }
}

output "kms_key_arn" {
  description = "The KMS key of lake, code, log groups and topic. A sink that writes to the lake needs kms:GenerateDataKey on it."
  value       = local.kms_key_arn
}

output "archive_key_arns" {
  description = "The KMS keys of raw files by name (`archive_keys`), for `archive_kms_key` in compactor.yaml."
  value       = local.archive_key_arns
}

output "application_id" {
  description = "The EMR Serverless application, for `runner: emr-serverless`; null if there is none."
  value       = one(aws_emrserverless_application.this[*].id)
}

output "job_role_arn" {
  description = "The role of jobs on EMR Serverless; null if there is no application."
  value       = one(aws_iam_role.job[*].arn)
}

output "job_policies" {
  description = "The permissions of a job as policy documents, for a role of your own: storage, catalog, reporting."
  value       = local.job_policies
}

output "iceberg_reader_policy" {
  description = "What a reader of the Iceberg tables needs in S3 (`iceberg:`), as a policy document: Snowflake, Databricks, Python. No raw files."
  value = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["s3:GetObject"]
        Resource = [for part in ["_iceberg", "_iceberg_current", "base", "delta"] : "${local.lake_arn}/${var.lake.warehouse}/*/${part}/*"]
      },
      {
        Effect    = "Allow"
        Action    = ["s3:ListBucket"]
        Resource  = local.lake_arn
        Condition = { StringLike = { "s3:prefix" = [for part in ["_iceberg", "_iceberg_current"] : "${var.lake.warehouse}/*/${part}/*"] } }
      },
      { Effect = "Allow", Action = ["kms:Decrypt"], Resource = coalesce(var.lake.kms_key_arn, local.kms_key_arn) },
    ]
  })
}

output "cluster_id" {
  description = "The EMR cluster, for `runner: emr-steps`; null if there is none."
  value       = one(aws_emr_cluster.this[*].id)
}

output "caller_role_arn" {
  description = "The role that starts jobs; null without `callers.trusted`."
  value       = one(aws_iam_role.caller[*].arn)
}

output "caller_policy" {
  description = "The permissions to start jobs, as a policy document, for a role in another module."
  value       = local.caller_policy
}

output "airflow_url" {
  description = "Address of the Airflow web server; null if there is no MWAA environment."
  value       = one([for url in aws_mwaa_environment.this[*].webserver_url : "https://${url}"])
}

output "topic_arn" {
  description = "SNS topic of alarms and failed jobs; also a target for `notify:`."
  value       = local.topic_arn
}

output "log_group" {
  description = "Log group of jobs on EMR Serverless; null if there is no application."
  value       = one(aws_cloudwatch_log_group.jobs[*].name)
}

locals {
  runner = var.serverless != null ? "emr-serverless" : var.cluster != null ? "emr-steps" : "local"

  # Keys without a value are left out: compactor.yaml has no nulls.
  compactor_yaml = merge(
    {
      warehouse = local.warehouse
      catalog   = { type = "glue", database = var.database.name }
      region    = local.region
    },
    local.runner == "local" ? {} : {
      emr = merge(
        {
          job  = "s3://${local.code_bucket}/jobs/${var.package_version}"
          logs = "s3://${local.logs_bucket}/jobs"
        },
        { for application in aws_emrserverless_application.this : "application" => application.id },
        { for role in aws_iam_role.job : "role" => role.arn },
        { for cluster in aws_emr_cluster.this : "cluster" => cluster.id },
      )
    },
    { defaults = merge(
      local.runner == "local" ? {} : { runner = local.runner },
      var.database.tables == null ? {} : { tables_in = var.database.tables.name },
      { for name, arn in local.archive_key_arns : "archive_kms_key" => arn if name == "default" },
      { for secret in local.hash_secrets : "hash_secret" => secret.arn },
    ) },
    { for namespace in local.namespace[*] : "metrics" => { deployment = var.name, namespace = namespace } },
  )
}
