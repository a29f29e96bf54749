output "compactor_yaml" {
  description = "The first part of compactor.yaml."
  value       = module.compactor.compactor_yaml
}

output "job_package" {
  description = "Where `compactor package` writes the job."
  value       = yamldecode(module.compactor.compactor_yaml).emr.job
}

output "dags" {
  description = "The folder of the DAGs."
  value       = "s3://${module.compactor.buckets.code}/dags"
}

output "compactor" {
  description = "All outputs of the module."
  value       = module.compactor
}
