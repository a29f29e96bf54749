output "warehouse" {
  description = "`warehouse:` in compactor.yaml."
  value       = local.warehouse
}

output "buckets" {
  description = "Names of the lake, code and logs buckets."
  value       = { lake = local.lake_bucket, code = local.code_bucket, logs = local.logs_bucket }
}

output "databases" {
  description = "Names of the Glue databases: `name` for the views, `tables` for base, Delta and incremental tables."
  value       = { name = var.database.name, tables = coalesce(var.database.tables, var.database.name) }
}

output "kms_key_arn" {
  description = "The KMS key of lake, code, log groups and topic. A sink that writes to the lake needs kms:GenerateDataKey on it."
  value       = local.kms_key_arn
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

output "cluster_id" {
  description = "The EMR cluster, for `runner: emr-steps`; null if there is none."
  value       = one(aws_emr_cluster.this[*].id)
}

output "caller_role_arn" {
  description = "The role that starts jobs; null if `callers.trusted_arns` is empty."
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
